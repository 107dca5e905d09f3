#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "comm/cases.h"

namespace taxon::sim {

/// What each rank's data is after one use of the row; the part that the row defines.
using Bytes = std::vector<std::vector<std::byte>>;

inline task::Task<void> use_row(comm::Runtime& doors, const test::Case& c, Bytes& results) {
  test::Member member(doors, std::max<std::size_t>(c.length * size_of(c.type), 1));
  auto met = member.meet();
  co_await met;
  View data = member.arena.bytes().slice(0, c.length * size_of(c.type));
  for (std::uint32_t unit = 0; unit < 2; ++unit) {
    test::fill(data, c.type, c.values, member.group.rank());
    auto used = test::use(member, c, unit);
    co_await used;
  }
  Range own{0, c.length};
  if (c.row->collective == net::Operation::ReduceScatter)
    own = part(own, static_cast<std::size_t>(member.group.size()),
               static_cast<std::size_t>(member.group.rank()));
  std::byte* begin = data.data() + own.begin * size_of(c.type);
  results[static_cast<std::size_t>(member.group.rank())].assign(begin, begin + own.size * size_of(c.type));
  auto end = comm::find_row(net::Operation::Barrier, "dissemination").run(member.group, {});
  co_await end;
}

inline task::Task<void> sum_steps(comm::Runtime& doors, int steps, std::size_t bytes) {
  test::Member member(doors, bytes);
  for (int step = 0; step < steps; ++step) {
    comm::Call call{member.arena.bytes(), DType::Float32, 3};
    auto sum = comm::find_row(net::Operation::AllReduce, "ring").run(member.group, call);
    co_await sum;
  }
}

}  // namespace taxon::sim
