#include <bit>

#include "comm/in_flight.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

/// In round k every member tells the one 2^k ahead and hears from the one 2^k behind: after ceil(log2 n)
/// rounds it has heard, through others, from all.
struct Dissemination {
  Communicator& group;
  net::Tag tag;
  InFlight<net::SendOp> sends{1};
  InFlight<net::RecvOp> receives{1};

  void start_round(int distance) {
    int members = group.size();
    Rank ahead = group.global((group.rank() + distance) % members);
    Rank behind = group.global((group.rank() - distance + members) % members);
    receives.start(0, group.runtime().transport, behind, tag, View(), DType::UInt8);
    sends.start(0, group.runtime().transport, ahead, tag, ConstView(), DType::UInt8);
  }

  task::Task<void> run() {
    for (int distance = 1; distance < group.size(); distance *= 2) {
      start_round(distance);
      net::RecvOp* heard = receives.at(0);
      co_await *heard;
      net::SendOp* told = sends.at(0);
      co_await *told;
      ++tag.round;
    }
  }
};

bool applies(const Shape&) { return true; }

/// ceil(log2 n) rounds (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", IJPP 1988).
double estimate(const Shape& shape, const LinkCost& cost) {
  return std::bit_width(static_cast<unsigned>(shape.size - 1)) * cost.latency;
}

task::Task<void> run(Communicator& group, Call call) {
  call.data = View();
  TraceScope recorded(group, "barrier dissemination", call);
  if (group.size() == 1) co_return;
  Dissemination rounds{group, group.begin(net::Operation::Barrier, call.unit, call.lane)};
  auto body = rounds.run();
  co_await settle(group.runtime().pending(), std::move(body));
}

}  // namespace

CollectiveRow dissemination_barrier() {
  return {net::Operation::Barrier, "dissemination", applies, estimate, sends_nothing, run};
}

}  // namespace taxon::comm
