#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "support/worlds.h"
#include "tensor/arena.h"
#include "tensor/cpu_device.h"

namespace taxon::test {

/// What the members bring.
enum class Values {
  Integers,  // small enough that every partial sum is exact in every type
  Random,    // in (-1, 1)
};

/// One use of a row.
struct Case {
  const comm::CollectiveRow* row;
  DType type;
  std::size_t length;
  Values values;
};

inline std::string describe(const Case& c, int members) {
  return std::string(c.row->name) + " of operation " + std::to_string(static_cast<int>(c.row->collective)) +
         ", " + std::to_string(members) + " members, " + std::to_string(c.length) + " x " +
         std::string(to_string(c.type)) + (c.values == Values::Random ? ", random" : ", integers");
}

/// Element `index` of what `member` brings. Exact in bfloat16 for integers.
inline double value_of(Values values, int member, std::size_t index) {
  if (values == Values::Integers)
    return static_cast<double>((index * 31 + static_cast<std::size_t>(member) * 17) % 13);
  std::uint64_t x =
      (index + 1) * 0x9e3779b97f4a7c15ULL ^ (static_cast<std::uint64_t>(member) + 7) * 0xc2b2ae3d27d4eb4fULL;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<double>(static_cast<std::int64_t>(x)) * 0x1p-63;
}

template <class T>
double as_double(T value) {
  return static_cast<double>(value);
}
inline double as_double(BFloat16 value) { return static_cast<double>(static_cast<float>(value)); }

template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return BFloat16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

inline void fill(View data, DType type, Values values, int member) {
  if (data.empty()) return;
  dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    auto elements = as_span<T>(data);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = rounded<T>(value_of(values, member, i));
  });
}

/// Sums of what all members bring, and the sums of magnitudes, which bound rounding errors.
struct Reference {
  std::vector<double> sum, magnitude;
};
inline const Reference& reference_of(DType type, Values values, int members, std::size_t length) {
  static std::map<std::tuple<DType, Values, int, std::size_t>, Reference> cache;
  auto [place, fresh] = cache.try_emplace({type, values, members, length});
  Reference& reference = place->second;
  if (!fresh) return reference;
  reference.sum.resize(length);
  reference.magnitude.resize(length);
  dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    for (int member = 0; member < members; ++member)
      for (std::size_t i = 0; i < length; ++i) {
        double value = as_double(rounded<T>(value_of(values, member, i)));
        reference.sum[i] += value;
        reference.magnitude[i] += std::abs(value);
      }
  });
  return reference;
}

inline double rounding_of(DType type) {
  return type == DType::Float64 ? 0x1p-53 : type == DType::Float32 ? 0x1p-24 : 0x1p-8;
}

/// Elements [range] of `data` are the sums. Integers must be exact.
inline void expect_sums(const Case& c, View data, int members, Range range) {
  const Reference& reference = reference_of(c.type, c.values, members, c.length);
  double relative = c.values == Values::Integers ? 0 : members * rounding_of(c.type);
  dispatch(c.type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = range.begin; i < range.end(); ++i) {
      double got = as_double(reinterpret_cast<const T*>(data.data())[i]);
      if (std::abs(got - reference.sum[i]) <= relative * reference.magnitude[i]) continue;
      ADD_FAILURE() << "element " << i << " is " << got << " instead of " << reference.sum[i];
      return;
    }
  });
}

/// Elements [range] of `data` are bit by bit what `member` brought.
inline void expect_brought(const Case& c, View data, int member, Range range) {
  dispatch(c.type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = range.begin; i < range.end(); ++i) {
      T expected = rounded<T>(value_of(c.values, member, i));
      if (std::memcmp(data.data() + i * sizeof(T), &expected, sizeof(T)) == 0) continue;
      ADD_FAILURE() << "element " << i << " is not member " << member << "'s";
      return;
    }
  });
}

inline void expect_result(const Case& c, View data, int rank, int members) {
  auto size = static_cast<std::size_t>(members);
  switch (c.row->collective) {
    case net::Operation::AllReduce:
      return expect_sums(c, data, members, {0, c.length});
    case net::Operation::ReduceScatter:
      return expect_sums(c, data, members, part({0, c.length}, size, static_cast<std::size_t>(rank)));
    case net::Operation::AllGather:
      for (int member = 0; member < members; ++member)
        expect_brought(c, data, member, part({0, c.length}, size, static_cast<std::size_t>(member)));
      return;
    case net::Operation::Broadcast:
      return expect_brought(c, data, 0, {0, c.length});
    default:
      return;
  }
}

/// A rank's place in a test: its doors, a communicator over all ranks, and memory that all map if they can.
struct Member {
  explicit Member(net::Transport& transport, std::size_t bytes)
      : device(transport.executor()),
        runtime{transport, device, recorder},
        group(runtime, "world", all_of(transport.world_size())),
        arena(transport, DType::UInt8, bytes) {}
  /// With the doors of a world that has its own devices.
  explicit Member(comm::Runtime& doors, std::size_t bytes)
      : device(doors.executor()),
        runtime{doors.transport, doors.device, doors.recorder, doors.carrier},
        group(runtime, "world", all_of(doors.world_size())),
        arena(doors.transport, DType::UInt8, bytes) {}

  static std::vector<Rank> all_of(int members) {
    std::vector<Rank> ranks;
    for (int i = 0; i < members; ++i) ranks.emplace_back(i);
    return ranks;
  }
  task::Task<void> meet() {
    auto established = group.establish();
    co_await established;
    auto shared = group.share(arena.region());
    co_await shared;
  }

  tensor::CpuDevice device;
  comm::FlightRecorder recorder;
  comm::Runtime runtime;
  comm::Communicator group;
  tensor::Arena arena;
};

/// Runs one use of a row on the first bytes of the member's memory.
inline task::Task<void> use(Member& member, const Case& c, std::uint32_t unit = 0) {
  comm::Call call{member.arena.bytes().slice(0, c.length * size_of(c.type)), c.type, unit};
  auto done = c.row->run(member.group, call);
  co_await done;
}

inline bool same_at_all(const std::vector<std::byte>& gathered, std::size_t size) {
  for (std::size_t at = size; at < gathered.size(); at += size)
    if (std::memcmp(gathered.data(), gathered.data() + at, size) != 0) return false;
  return true;
}

/// Runs the case twice and checks the result: right, the same bits in both runs and, where all members get
/// the same, at all members.
inline task::Task<void> check_case(Member& member, const Case& c) {
  SCOPED_TRACE(describe(c, member.group.size()));
  View data = member.arena.bytes().slice(0, c.length * size_of(c.type));
  std::vector<std::byte> first;
  for (int run = 0; run < 2; ++run) {
    fill(data, c.type, c.values, member.group.rank());
    auto used = use(member, c);
    co_await used;
    expect_result(c, data, member.group.rank(), member.group.size());
    std::size_t begin = 0, size = data.size();
    if (c.row->collective == net::Operation::ReduceScatter) {
      Range own = part({0, c.length}, static_cast<std::size_t>(member.group.size()),
                       static_cast<std::size_t>(member.group.rank()));
      begin = own.begin * size_of(c.type);
      size = own.size * size_of(c.type);
    }
    const bool compare = run > 0 && size > 0 && c.row->collective != net::Operation::Barrier;
    if (run == 0) first.assign(data.data() + begin, data.data() + begin + size);
    if (compare && std::memcmp(first.data(), data.data() + begin, size) != 0)
      ADD_FAILURE() << "two runs differ";
  }
  if (c.row->collective != net::Operation::AllReduce || c.values == Values::Integers) co_return;
  std::uint64_t hash = 0;
  for (std::byte byte : first) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ULL;
  net::Tag tag = member.group.begin(net::Operation::User, 0);
  auto asked = member.group.gather(tag, ConstView(reinterpret_cast<std::byte*>(&hash), sizeof hash));
  auto hashes = co_await asked;
  EXPECT_TRUE(same_at_all(hashes, sizeof hash)) << "members have different bits";
}

template <class Doors>  // a transport or a runtime
task::Task<void> check_cases(Doors& doors, const std::vector<Case>& cases) {
  std::size_t longest = 1;
  for (const Case& c : cases) longest = std::max(longest, c.length * size_of(c.type));
  Member member(doors, longest);
  auto met = member.meet();
  co_await met;
  for (const Case& c : cases) {
    comm::Shape shape{member.group.size(), c.length * size_of(c.type), member.group.shares_memory()};
    if (!c.row->applies(shape)) continue;
    auto checked = check_case(member, c);
    co_await checked;
  }
  // Nobody's memory goes while another may still look at it.
  auto end = comm::find_row(net::Operation::Barrier, "dissemination").run(member.group, {});
  co_await end;
}

inline std::string row_name(const comm::CollectiveRow& row) {
  static const std::map<net::Operation, std::string> kNames{{net::Operation::AllReduce, "all_reduce"},
                                                            {net::Operation::ReduceScatter, "reduce_scatter"},
                                                            {net::Operation::AllGather, "all_gather"},
                                                            {net::Operation::Broadcast, "broadcast"},
                                                            {net::Operation::Barrier, "barrier"}};
  return kNames.at(row.collective) + "_" + std::string(row.name);
}

inline std::vector<const comm::CollectiveRow*> all_rows() {
  std::vector<const comm::CollectiveRow*> rows;
  for (const comm::CollectiveRow& row : comm::collective_table()) rows.push_back(&row);
  return rows;
}

}  // namespace taxon::test
