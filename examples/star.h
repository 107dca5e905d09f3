// An all-reduce of one's own: a star, where member 0 collects, sums and spreads.
#pragma once

#include <taxon/comm.h>

#include <vector>

// An operation of the network starts where it is named and is awaited later. begin() gives the same tag to
// all members, so that a message can only meet its own receiver.
inline taxon::task::Task<void> run_star(taxon::comm::Communicator& group, taxon::comm::Call call) {
  using namespace taxon;
  net::Transport& transport = group.runtime().transport;
  net::Tag tag = group.begin(net::Operation::User, call.unit, call.lane);
  if (group.rank() != 0) {
    net::SendOp send(transport, group.global(0), tag, call.data, call.type);
    co_await send;
  } else {
    std::vector<std::byte> theirs(call.data.size());
    View other(theirs.data(), theirs.size());
    for (int member = 1; member < group.size(); ++member) {  // in order: the same bits in every run
      net::RecvOp receive(transport, group.global(member), tag, other, call.type);
      co_await receive;
      const ConstView both[] = {call.data, other};
      comm::sum_into(call.type, call.data, both);
    }
  }
  comm::Shape shape{group.size(), call.data.size(), false};
  const auto& row = comm::choose_row(net::Operation::Broadcast, shape, {5e-6, 1e9, 1e-10});
  co_await row.run(group, call);
}

inline taxon::comm::CollectiveRow star() {
  using taxon::comm::Shape;
  return {.collective = taxon::net::Operation::AllReduce,
          .name = "star",
          .applies = [](const Shape&) { return true; },
          // Everything passes member 0's link, once for each other member and each way.
          .estimate =
              [](const Shape& shape, const taxon::comm::LinkCost& cost) {
                return 2 * (shape.size - 1) *
                       (cost.latency + static_cast<double>(shape.bytes) / cost.bandwidth);
              },
          .sent =
              [](const Shape& shape) {
                return 2.0 * (shape.size - 1) * static_cast<double>(shape.bytes) / shape.size;
              },
          .steps = run_star};
}
