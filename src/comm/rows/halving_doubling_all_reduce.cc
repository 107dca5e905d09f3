#include <bit>
#include <cmath>

#include "comm/in_flight.h"
#include "comm/kernels.h"
#include "comm/rows/segments.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

/// Rounds of the folding; the exchanges between come after them.
constexpr std::uint32_t kFoldRound = 0, kUnfoldRound = 1, kFirstRound = 2;

/// Recursive vector halving, then distance doubling: with a power of two of members, log2 n exchanges sum a
/// half, a quarter, ... of the vector with the opposite member, and log2 n exchanges bring the parts back
/// together. Other sizes fold: the surplus members give their vector to a neighbour first and get the sum
/// from it at the end.
class HalvingDoubling {
 public:
  HalvingDoubling(Communicator& group, const Call& call, net::Tag tag)
      : group_(group),
        call_(call),
        tag_(tag),
        all_{0, call.data.size() / size_of(call.type)},
        power_(static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())))),
        surplus_(group.size() - power_),
        scratch_(group.scratch(), call.data.size(), call.data),
        send_(1),
        receive_(1) {}

  task::Task<void> run() {
    const bool folded = group_.rank() < 2 * surplus_;
    if (folded) {
      auto fold = group_.rank() % 2 == 1 ? give_to(group_.rank() - 1) : take_from(group_.rank() + 1);
      co_await fold;
    }
    if (!folded || group_.rank() % 2 == 0) {
      co_await exchange_parts();
    }
    if (folded) {
      auto unfold = group_.rank() % 2 == 1 ? receive(group_.rank() - 1) : tell(group_.rank() + 1);
      co_await unfold;
    }
  }

 private:
  /// One halving: what this member kept, what it gave away, and to whom.
  struct Halving {
    int member;
    Range kept, given;
  };

  void start_send(int member, std::uint32_t round, Range range) {
    tag_.round = round;
    send_.start(0, group_.runtime().transport, group_.global(member), tag_, view(range), call_.type);
  }
  void start_receive(int member, std::uint32_t round, View into) {
    tag_.round = round;
    receive_.start(0, group_.runtime().transport, group_.global(member), tag_, into, call_.type);
  }
  View view(Range range) const { return elements(call_.data, call_.type, range); }
  View staged(Range range) const { return scratch_.bytes().slice(0, range.size * size_of(call_.type)); }
  tensor::Kernel add_staged(Range range) const {
    return sum_kernel(call_.type, view(range), {staged(range)});
  }
  task::Task<void> sum(Range range) {
    ExchangeKernel work(group_, add_staged(range));
    if (work.done()) co_return;
    co_await work.finished();
  }
  task::Task<void> sent() {
    net::SendOp* op = send_.at(0);
    co_await *op;
  }
  task::Task<void> received() {
    net::RecvOp* op = receive_.at(0);
    co_await *op;
  }

  task::Task<void> give_to(int member) {
    start_send(member, kFoldRound, all_);
    co_await sent();
  }
  task::Task<void> take_from(int member) {
    start_receive(member, kFoldRound, staged(all_));
    co_await received();
    co_await sum(all_);
  }
  task::Task<void> tell(int member) {
    start_send(member, kUnfoldRound, all_);
    co_await sent();
  }
  task::Task<void> receive(int member) {
    start_receive(member, kUnfoldRound, view(all_));
    co_await received();
  }

  /// Places among the members that do not give their vector away.
  int place() const { return group_.rank() < 2 * surplus_ ? group_.rank() / 2 : group_.rank() - surplus_; }
  int member_at(int place) const { return place < surplus_ ? 2 * place : place + surplus_; }

  /// The halvings in order: each opposite member is half as far away as the one before.
  std::vector<Halving> halvings() const {
    std::vector<Halving> plan;
    Range range = all_;
    for (int distance = power_ / 2; distance > 0; distance /= 2) {
      std::size_t kept = (place() & distance) != 0 ? 1 : 0;
      plan.push_back({member_at(place() ^ distance), part(range, 2, kept), part(range, 2, 1 - kept)});
      range = plan.back().kept;
    }
    return plan;
  }

  task::Task<void> exchange_parts() {
    const std::vector<Halving> plan = halvings();
    std::uint32_t round = kFirstRound;
    for (const Halving& halving : plan) {
      start_receive(halving.member, round, staged(halving.kept));
      start_send(halving.member, round, halving.given);
      ++round;
      co_await received();
      co_await sum(halving.kept);
      co_await sent();
    }
    for (std::size_t i = plan.size(); i-- > 0;) {
      start_receive(plan[i].member, round, view(plan[i].given));
      start_send(plan[i].member, round, plan[i].kept);
      ++round;
      co_await received();
      co_await sent();
    }
  }

  Communicator& group_;
  Call call_;
  net::Tag tag_;
  Range all_;
  int power_, surplus_;
  Scratch scratch_;
  InFlight<net::SendOp> send_;
  InFlight<net::RecvOp> receive_;
};

bool applies(const Shape&) { return true; }

/// 2 log2 p (latency) + 2 (p-1)/p S (bandwidth) + (p-1)/p S (sums) for the p members that exchange, p the
/// largest power of two (Rabenseifner, "Optimization of collective reduction operations", ICCS 2004); folding
/// moves the whole vector twice more and sums it once. Nothing overlaps.
double estimate(const Shape& shape, const LinkCost& cost) {
  double power = std::bit_floor(static_cast<unsigned>(shape.size));
  double bytes = static_cast<double>(shape.bytes), moved = (power - 1) / power * bytes;
  double seconds = 2 * (std::log2(power) * cost.latency + moved / cost.bandwidth) + moved * cost.reduce;
  if (shape.size > power) seconds += 2 * (cost.latency + bytes / cost.bandwidth) + bytes * cost.reduce;
  return seconds;
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "all_reduce halving_doubling", call);
  if (group.size() == 1) co_return;
  net::Tag tag = group.begin(net::Operation::AllReduce, call.unit, call.lane);
  HalvingDoubling exchange(group, call, tag);
  auto steps = exchange.run();
  co_await settle(group.runtime().pending(), std::move(steps));
}

}  // namespace

CollectiveRow halving_doubling_all_reduce() {
  return {net::Operation::AllReduce, "halving_doubling", applies, estimate, sends_two_shares, run};
}

}  // namespace taxon::comm
