#include "exchange/topologies/significant.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <deque>

#include "comm/in_flight.h"
#include "comm/kernels.h"
#include "comm/scratch.h"
#include "comm/told.h"
#include "comm/trace_scope.h"
#include "exchange/topologies/mixing.h"

namespace taxon::exchange {
namespace {

struct SignificantOptions {
  double significance = 0.01;
};
template <plan::Like<SignificantOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "significance",
                    .sentence =
                        "What exceeds this share of its weight goes out; in step t the share divided by the "
                        "root of t. 0: everything.",
                    .min = 0,
                    .max = 1e6},
        o.significance);
}

using Position = std::uint32_t;
constexpr std::uint32_t kCount = 0, kEntries = 1;  // messages of a round

bool goes_whole(std::size_t count, std::size_t entries, std::size_t element) {
  return entries * (sizeof(Position) + element) >= count * element;
}

template <class Body>
void for_floats(DType type, Body&& body) {
  dispatch(type, [&](auto zero) {
    if constexpr (std::is_floating_point_v<decltype(zero)>) body(zero);
  });
}

/// One unit's run of the weights at one member, in a round: own way, what of it goes out, what stays.
struct Part {
  DType type;
  View values;    // in: the member's weights; then what stays of its way; out: its weights
  View common;    // weights that are equal everywhere
  View sum;       // of what all members sent
  View outgoing;  // room for all values
  View incoming;  // the same for each member
  double threshold;
  std::size_t count() const { return values.size() / size_of(type); }
};

/// values := what stays, outgoing := entries that go. Returns how many.
template <class T>
std::size_t choose_entries(const Part& part) {
  auto x = as_span<T>(part.values);
  auto common = as_span<T>(part.common);
  auto way = as_span<T>(part.outgoing);
  std::size_t entries = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    way[i] = x[i] - common[i];
    // Written so that what is not a number is significant, and known to all.
    const bool stays = way[i] == 0 || std::abs(way[i]) <= T(part.threshold) * std::abs(x[i]);
    x[i] = stays ? way[i] : T(0);
    if (stays) way[i] = 0;
    entries += !stays;
  }
  return entries;
}

/// In place: the values that are not 0 move to the front, behind the positions, which come from `positions`.
template <class T>
void pack(View outgoing, std::size_t entries, std::vector<Position>& positions) {
  auto way = as_span<T>(outgoing);
  positions.clear();
  positions.reserve(entries);
  for (std::size_t i = 0; i < way.size(); ++i)
    if (way[i] != 0) {
      way[positions.size()] = way[i];
      positions.push_back(static_cast<Position>(i));
    }
  std::memmove(outgoing.data() + entries * sizeof(Position), outgoing.data(), entries * sizeof(T));
  std::memcpy(outgoing.data(), positions.data(), entries * sizeof(Position));
}

template <class T>
void add_entries(const Part& part, ConstView wire, std::size_t entries, Rank from) {
  auto sum = as_span<T>(part.sum);
  if (goes_whole(sum.size(), entries, sizeof(T))) {
    auto way = as_span<const T>(wire);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += way[i];
    return;
  }
  std::int64_t last = -1;
  for (std::size_t e = 0; e < entries; ++e) {
    Position position;
    T value;
    std::memcpy(&position, wire.data() + e * sizeof(Position), sizeof position);
    std::memcpy(&value, wire.data() + entries * sizeof(Position) + e * sizeof(T), sizeof value);
    if (position >= sum.size() || static_cast<std::int64_t>(position) <= last)
      throw comm::told_wrong(
          from, "significant entries",
          fmt::format("entry {} of {} at position {} of {}", e, entries, position, sum.size()));
    last = position;
    sum[position] += value;
  }
}

template <class T>
void settle_part(const Part& part, int members) {
  auto x = as_span<T>(part.values);
  auto common = as_span<T>(part.common);
  auto sum = as_span<T>(part.sum);
  for (std::size_t i = 0; i < x.size(); ++i) {
    common[i] += sum[i] / T(members);
    x[i] += common[i];
  }
}

class Significant final : public Topology, public Stateful, public Asynchronous {
 public:
  Significant(comm::Communicator& group, TopologyContext context)
      : group_(group), significance_(context.level.options.read<SignificantOptions>().significance) {}

  Range owned(Range range) const override { return range; }
  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override;
  task::Task<void> spread(LevelTransfer, const tensor::Arena&) override { co_return; }
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }
  Stateful* stateful() override { return this; }
  Asynchronous* asynchronous() override { return this; }

  task::Task<void> serve(std::vector<Range> units, const tensor::Arena* values, task::Scope*) override {
    common_ = tensor::Arena(values->type(), values->size(), values->bytes());
    for (Range unit : units) {
      co_await run(comm::copy_kernel(common_.bytes(unit), values->bytes(unit)));
    }
  }
  std::vector<StateArena> state() const override {
    if (common_.size() == 0) return {};
    return {{"common", &common_, true}};
  }

 private:
  class Mail;
  task::Task<void> run(tensor::Kernel kernel) {
    comm::ExchangeKernel work(group_, std::move(kernel));
    co_await work.finished();
  }
  task::Task<std::size_t> choose(const Part* part);

  comm::Communicator& group_;
  const double significance_;
  tensor::Arena common_;  // of the values' layout
};

/// Everybody to everybody: counts, then entries. Outlives the coroutines that await it.
class Significant::Mail {
 public:
  Mail(comm::Communicator& group, net::Tag tag)
      : group_(group), tag_(tag), counts_(static_cast<std::size_t>(group.size())) {}

  task::Task<void> tell(std::int64_t own) {
    counts_[static_cast<std::size_t>(group_.rank())] = own;
    own_ = own;
    for (int member : others()) {
      receive(member, kCount, as_view(std::span(&counts_[static_cast<std::size_t>(member)], 1)));
      send(member, kCount, as_const_view(std::span<const std::int64_t>(&own_, 1)));
    }
    return all();
  }
  /// Bytes of what a member sends. Throws Error{Mismatch} for a count that nobody may have.
  std::size_t bytes_from(int member, const Part& part) const {
    const std::int64_t entries = counts_[static_cast<std::size_t>(member)];
    if (entries < 0 || static_cast<std::size_t>(entries) > part.count())
      throw comm::told_wrong(group_.global(member), "significant entries",
                             fmt::format("{} entries of {}", entries, part.count()));
    return significant_bytes(part.count(), static_cast<std::size_t>(entries), size_of(part.type));
  }
  std::size_t entries_from(int member) const {
    return static_cast<std::size_t>(counts_[static_cast<std::size_t>(member)]);
  }
  ConstView wire(int member, const Part& part) const {
    const std::size_t bytes = bytes_from(member, part);
    if (member == group_.rank()) return part.outgoing.slice(0, bytes);
    return part.incoming.slice(static_cast<std::size_t>(member) * part.values.size(), bytes);
  }
  task::Task<void> exchange(const Part& part) {
    sends_.clear();
    receives_.clear();
    const std::size_t own = bytes_from(group_.rank(), part);
    for (int member : others()) bytes_from(member, part);  // before anything is on its way
    for (int member : others()) {
      const std::size_t bytes = bytes_from(member, part);
      if (bytes > 0)
        receive(member, kEntries,
                part.incoming.slice(static_cast<std::size_t>(member) * part.values.size(), bytes));
      if (own > 0) send(member, kEntries, part.outgoing.slice(0, own));
    }
    return all();
  }

 private:
  /// Each begins with another, so that they don't all queue at one link.
  std::vector<int> others() const {
    std::vector<int> members;
    for (int i = 1; i < group_.size(); ++i) members.push_back((group_.rank() + i) % group_.size());
    return members;
  }
  net::Tag of(std::uint32_t message) const {
    net::Tag tag = tag_;
    tag.round = message;
    return tag;
  }
  void receive(int member, std::uint32_t message, View to) {
    receives_.emplace_back(group_.runtime().transport, group_.global(member), of(message), to, DType::UInt8);
  }
  void send(int member, std::uint32_t message, ConstView from) {
    sends_.emplace_back(group_.runtime().transport, group_.global(member), of(message), from, DType::UInt8);
  }
  task::Task<void> await_all() {
    for (net::RecvOp& receive : receives_) co_await receive;
    for (net::SendOp& send : sends_) co_await send;
  }
  task::Task<void> all() {
    auto waiting = await_all();
    return comm::settle(group_.runtime().pending(), std::move(waiting));
  }

  comm::Communicator& group_;
  const net::Tag tag_;
  std::int64_t own_ = 0;
  std::vector<std::int64_t> counts_;
  std::deque<net::RecvOp> receives_;
  std::deque<net::SendOp> sends_;
};

/// Where payloads are phantoms nothing is known of them, and everything counts as significant.
task::Task<std::size_t> Significant::choose(const Part* part) {
  std::size_t entries = part->count();
  std::vector<Position> positions;
  tensor::Kernel choosing{"significant entries",
                          {4.0 * static_cast<double>(part->count()), 5 * part->values.size()},
                          [part, &entries, &positions](tensor::Milestones&) {
                            for_floats(part->type, [&](auto zero) {
                              using T = decltype(zero);
                              entries = choose_entries<T>(*part);
                              if (!goes_whole(part->count(), entries, sizeof(T)))
                                pack<T>(part->outgoing, entries, positions);
                            });
                          }};
  co_await run(std::move(choosing));
  co_return entries;
}

task::Task<double> Significant::reduce(LevelTransfer transfer, const tensor::Arena& values) {
  const View data = values.bytes(transfer.range);
  const auto members = static_cast<std::size_t>(group_.size());
  comm::TraceScope recorded(group_, "significant entries",
                            {data, values.type(), transfer.unit, transfer.lane});
  Mail mail(group_, group_.begin(net::Operation::Reduce, transfer.unit, transfer.lane));
  comm::Scratch scratch(group_.scratch(), (members + 2) * data.size(), data);
  const View room = scratch.bytes();
  const Part part{values.type(),
                  data,
                  common_.bytes(transfer.range),
                  room.slice(0, data.size()),
                  room.slice(data.size(), data.size()),
                  room.slice(2 * data.size(), members * data.size()),
                  significance_ / std::sqrt(static_cast<double>(transfer.round) + 1)};
  const std::size_t entries = co_await choose(&part);
  co_await mail.tell(static_cast<std::int64_t>(entries));
  co_await mail.exchange(part);
  tensor::Kernel adding{"significant entries",
                        {static_cast<double>(members * part.count()), (members + 4) * data.size()},
                        [this, &part, &mail](tensor::Milestones&) {
                          for_floats(part.type, [&](auto zero) {
                            using T = decltype(zero);
                            std::memset(part.sum.data(), 0, part.sum.size());
                            for (int member = 0; member < group_.size(); ++member)
                              add_entries<T>(part, mail.wire(member, part), mail.entries_from(member),
                                             group_.global(member));
                            settle_part<T>(part, group_.size());
                          });
                        }};
  co_await run(std::move(adding));
  co_return 1;
}

std::unique_ptr<Topology> make(comm::Communicator& group, TopologyContext context) {
  return std::make_unique<Significant>(group, context);
}

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels",
     "topology significant needs rule average, delay 0, mixing 0 and inner_state keep or reset, since what "
     "stays of "
     "a replica's way is its own alone",
     averages_at_once},
};

}  // namespace

/// Members tell each other only what is significant (Gaia's approximate synchronous parallel: Hsieh et al.,
/// NSDI 2017). Each member's weights are the common ones, equal everywhere, and its own way since, as far as
/// the others don't know it. In a round t (0 is the first) those entries of its way that exceed significance
/// / sqrt(t + 1) of their weight go to everybody, and their mean over the members into the common weights;
/// what is below stays its own and adds up. The mean over the members' weights stays what it was.
TopologyRow significant() {
  return {.name = "significant",
          .make = make,
          .reduce = net::Operation::User,
          .spread = net::Operation::User,
          .owned = [](std::size_t count, int) { return count; },
          .sent =
              [](const plan::LevelPlan&, std::size_t bytes, const LevelShape& shape, const Extensions&) {
                // At most: as if every entry were significant.
                return (shape.size - 1) * static_cast<double>(bytes + sizeof(std::int64_t));
              },
          .sentence = "nobody owns anything: each tells all others what of its way is significant (Gaia)",
          .mixing = "synchronous, of what is significant",
          .options = plan::option_keys<SignificantOptions>,
          .rules = kRules};
}

std::size_t significant_bytes(std::size_t count, std::size_t entries, std::size_t element) {
  return goes_whole(count, entries, element) ? count * element : entries * (sizeof(Position) + element);
}

}  // namespace taxon::exchange
