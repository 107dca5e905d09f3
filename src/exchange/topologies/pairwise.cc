#include "exchange/topologies/pairwise.h"

#include <fmt/format.h>

#include <cstring>

#include "base/rng.h"
#include "comm/told.h"
#include "comm/trace_scope.h"
#include "exchange/kernels.h"
#include "exchange/topologies/mixing.h"
#include "task/scope.h"

namespace taxon::exchange {
namespace {

constexpr std::uint32_t kHead = 0, kValues = 1, kAnswer = 2, kHeard = 3;

View bytes_of(Pairwise::Head& head) { return as_view(std::span<std::int64_t>(head)); }
ConstView bytes_of(const Pairwise::Head& head) { return as_const_view(std::span<const std::int64_t>(head)); }

template <class Body>
void for_floats(DType type, Body&& body) {
  dispatch(type, [&](auto zero) {
    if constexpr (std::is_floating_point_v<decltype(zero)>) body(zero);
  });
}

void copy(View to, ConstView from) {
  if (from.size() > 0) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

Pairwise::Pairwise(comm::Communicator& group, TopologyContext context)
    : group_(group), seed_(context.seed), log_(context.log) {}

/// A pure function, the same for all units of a turn.
int Pairwise::partner_at(std::int64_t round) const {
  const auto turn = static_cast<std::uint64_t>(round) * static_cast<std::uint64_t>(group_.size()) +
                    static_cast<std::uint64_t>(group_.rank());
  Rng rng(seed_, "partner", turn);
  return 2 * static_cast<int>(rng.below(static_cast<std::uint64_t>(passives())));
}

task::Task<void> Pairwise::run(tensor::Kernel kernel) {
  comm::Runtime& runtime = group_.runtime();
  co_await tensor::run(runtime.device, runtime.pending(), tensor::Stream::Exchange, std::move(kernel));
}

/// Something that changes what this member answers with, or reads it: the order decides what comes of it.
task::Task<void> Pairwise::act(const Held* held, AsyncEvent event, tensor::Kernel kernel) {
  co_await held->turns->take(event);
  co_await run(std::move(kernel));
  held->turns->over();
}

task::Task<double> Pairwise::reduce(LevelTransfer transfer, const tensor::Arena& values) {
  comm::TraceScope recorded(group_, "pair",
                            {values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane});
  if (!is_passive()) {
    co_await average_with_partner(transfer, &values);
    co_return 1;
  }
  const Held& held = held_[transfer.unit];
  std::int64_t number = 0;
  for (Range piece : kernel_pieces({0, transfer.range.size})) {
    const AsyncEvent own_way{AsyncEvent::Kind::OwnWay, static_cast<std::int32_t>(transfer.unit),
                             group_.rank(), number++};
    tensor::Kernel kernel{"own way",
                          {2.0 * static_cast<double>(piece.size), 4 * piece.size * size_of(values.type())},
                          [&held, &values, transfer, piece](tensor::Milestones&) {
                            for_floats(values.type(), [&](auto zero) {
                              using T = decltype(zero);
                              auto now = held.now.values<T>(piece);
                              auto taken = held.taken.values<T>(piece);
                              auto own = values.values<T>({transfer.range.begin + piece.begin, piece.size});
                              for (std::size_t i = 0; i < now.size(); ++i) now[i] += own[i] - taken[i];
                            });
                          }};
    co_await act(&held, own_way, std::move(kernel));
  }
  co_return 1;
}

task::Task<void> Pairwise::spread(LevelTransfer transfer, const tensor::Arena& values) {
  if (!is_passive()) co_return;
  const Held& held = held_[transfer.unit];
  std::int64_t number = 0;
  for (Range piece : kernel_pieces({0, transfer.range.size})) {
    const AsyncEvent take_over{AsyncEvent::Kind::TakeOver, static_cast<std::int32_t>(transfer.unit),
                               group_.rank(), number++};
    tensor::Kernel kernel{"take over",
                          {0, 3 * piece.size * size_of(values.type())},
                          [&held, &values, transfer, piece](tensor::Milestones&) {
                            const ConstView now = held.now.bytes(piece);
                            copy(held.taken.bytes(piece), now);
                            copy(values.bytes({transfer.range.begin + piece.begin, piece.size}), now);
                          }};
    co_await act(&held, take_over, std::move(kernel));
  }
}

task::Task<void> Pairwise::average_with_partner(LevelTransfer transfer, const tensor::Arena* values) {
  const int partner = partner_at(transfer.round);
  const std::uint32_t use = uses_[partner]++;
  Channel heads(group_, partner, kPairsUnit, use), channel(group_, partner, transfer.unit, use);
  const Head head{static_cast<std::int64_t>(Kind::Contribution), transfer.unit};
  const View data = values->bytes(transfer.range);
  task::Scope sends(group_.runtime().pending());
  sends.spawn(heads.say(kHead, bytes_of(head), DType::Int64));
  sends.spawn(channel.say(kValues, data, values->type()));
  co_await sends.join();
  co_await channel.hear(kAnswer, data, values->type());
}

task::Task<void> Pairwise::serve(std::vector<Range> units, const tensor::Arena* values,
                                 task::Scope* listeners) {
  if (!is_passive()) co_return;
  listeners_ = listeners;
  comm::Runtime& runtime = group_.runtime();
  for (Range range : units) {
    held_.push_back({range, tensor::Arena(values->type(), range.size, values->bytes()),
                     tensor::Arena(values->type(), range.size, values->bytes()),
                     BufferPool(values->type(), range.size, values->bytes()),
                     std::make_unique<ReplayGate>(runtime.executor(), runtime.pending())});
    const auto unit = static_cast<std::int32_t>(held_.size() - 1);
    held_.back().turns->open(fmt::format("pairs in bucket {}", unit), log_, AsyncEvent::Role::Passive, unit);
    tensor::Kernel kernel{"held",
                          {0, 3 * held_.back().now.bytes().size()},
                          [&held = held_.back(), values](tensor::Milestones&) {
                            copy(held.now.bytes(), values->bytes(held.range));
                            copy(held.taken.bytes(), values->bytes(held.range));
                          }};
    co_await run(std::move(kernel));
  }
  for (int member = 1; member < group_.size(); member += 2) listeners_->spawn(receive(member));
}

task::Task<void> Pairwise::receive(int member) {
  for (Channel heads(group_, member, kPairsUnit);; heads.next_use()) {
    Head head{};
    co_await heads.hear(kHead, bytes_of(head), DType::Int64);
    const Kind kind{head[0]};
    if (kind == Kind::Close) co_return;
    if (kind == Kind::Contribution) {
      if (head[1] < 0 || static_cast<std::size_t>(head[1]) >= held_.size())
        throw comm::told_wrong(heads.rank(), "pairs", fmt::format("bucket {} of {}", head[1], held_.size()));
      const auto unit = static_cast<std::uint32_t>(head[1]);
      listeners_->spawn(answer(member, heads.use(), &held_[unit], unit));
      continue;
    }
    if (kind != Kind::Pause)
      throw comm::told_wrong(heads.rank(), "pairs", fmt::format("a head of kind {}", head[0]));
    ++paused_[member];
    if (quiet_ && all_paused()) quiet_->set();
    const Head heard{};
    co_await heads.say(kHeard, bytes_of(heard), DType::Int64);
  }
}

/// Piece by piece, and each at one time: in between others may be averaged, which leaves the sum alone too.
task::Task<void> Pairwise::answer(int member, std::uint32_t use, Held* held, std::uint32_t unit) {
  Channel channel(group_, member, unit, use);
  const DType type = held->now.type();
  const Buffer buffer = held->unused.take();
  co_await channel.hear(kValues, buffer->bytes(), type);
  std::int64_t number = 0;
  for (Range piece : kernel_pieces({0, held->range.size})) {
    const AsyncEvent average{AsyncEvent::Kind::Average, static_cast<std::int32_t>(unit), member, number++};
    tensor::Kernel kernel{"average",
                          {2.0 * static_cast<double>(piece.size), 4 * piece.size * size_of(type)},
                          [held, other = buffer.get(), piece, type](tensor::Milestones&) {
                            for_floats(type, [&](auto zero) {
                              using T = decltype(zero);
                              auto x = other->values<T>(piece);
                              auto y = held->now.values<T>(piece);
                              for (std::size_t i = 0; i < x.size(); ++i) x[i] = y[i] = (x[i] + y[i]) / 2;
                            });
                          }};
    co_await act(held, average, std::move(kernel));
  }
  co_await channel.say(kAnswer, buffer->bytes(), type);
}

bool Pairwise::all_paused() const {
  for (int member = 1; member < group_.size(); member += 2)
    if (auto found = paused_.find(member); found == paused_.end() || found->second < pauses_) return false;
  return true;
}

task::Task<void> Pairwise::pause() {
  ++pauses_;
  if (!is_passive()) {
    co_await tell(Kind::Pause);
    co_return;
  }
  comm::Runtime& runtime = group_.runtime();
  if (all_paused()) co_return;
  quiet_ = std::make_unique<task::Event>(runtime.executor(), runtime.pending());
  auto quiet = quiet_->wait("pause", "of members that average");
  co_await quiet;
  quiet_.reset();
}

/// To every passive member; a pause is over when all have heard of it.
task::Task<void> Pairwise::tell(Kind kind) {
  if (is_passive()) co_return;
  const Head head{static_cast<std::int64_t>(kind), 0};
  for (int member = 0; member < group_.size(); member += 2) {
    Channel heads(group_, member, kPairsUnit, uses_[member]++);
    co_await heads.say(kHead, bytes_of(head), DType::Int64);
    if (kind != Kind::Pause) continue;
    Head heard{};
    co_await heads.hear(kHeard, bytes_of(heard), DType::Int64);
  }
}

namespace {

std::unique_ptr<Topology> make(comm::Communicator& group, TopologyContext context) {
  return std::make_unique<Pairwise>(group, context);
}

/// There and back, begun by every second member.
double sent(const plan::LevelPlan&, std::size_t bytes, const LevelShape& shape, const Extensions&) {
  const double active = shape.size / 2;
  return active / shape.size * (2 * static_cast<double>(bytes) + static_cast<double>(sizeof(Pairwise::Head)));
}

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels", "topology pairs must be the only level",
     [](const plan::LegalityInput& c, const plan::LevelPlan&) {
       const std::size_t levels = c.plan.exchange.levels.size();
       return plan::unless(levels < 2, fmt::format("there are {} levels", levels));
     }},
    {"exchange.levels",
     "topology pairs needs rule average, delay 0, mixing 0 and inner_state keep or reset, since both sides "
     "of a "
     "pair become its mean at once",
     averages_at_once},
};

}  // namespace

/// AD-PSGD: Lian et al., ICML 2018.
TopologyRow pairs() {
  return {.name = "pairs",
          .make = make,
          .reduce = net::Operation::User,
          .spread = net::Operation::User,
          .owned = [](std::size_t count, int) { return count; },
          .sent = sent,
          .scheduling = [](const plan::LevelPlan&, const Extensions&) { return Scheduling::Free; },
          .sentence = "nobody owns anything: each averages with a random partner, at any time (AD-PSGD)",
          .mixing = "asynchronous",
          .rules = kRules};
}

}  // namespace taxon::exchange
