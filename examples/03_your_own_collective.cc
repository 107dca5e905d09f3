// A collective of one's own: a star, where member 0 collects, sums and spreads. It has the form of a row of
// Taxon's table, runs over any transport, and is compared with the table's ring.
#include <taxon/comm.h>

#include <cstring>
#include <iostream>
#include <vector>

using namespace taxon;

// An operation of the network starts where it is named and is awaited later. begin() gives the same tag to
// all members, so that a message can only meet its own receiver.
task::Task<void> star(comm::Communicator& group, comm::Call call) {
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
  auto spread = row.run(group, call);
  co_await spread;
}

task::Task<void> rank(net::Transport* transport, int* disagreements) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < runtime.world_size(); ++r) everybody.push_back(Rank(r));
  comm::Communicator world(runtime, "world", everybody);
  auto establish = world.establish();
  co_await establish;

  std::vector<double> one(1009);  // a length that no number of ranks divides
  for (std::size_t i = 0; i < one.size(); ++i) one[i] = static_cast<double>(i) * (runtime.rank().value() + 1);
  std::vector<double> two = one;
  comm::Call by_star{as_view(std::span(one)), DType::Float64},
      by_ring{as_view(std::span(two)), DType::Float64};
  auto first = star(world, by_star);
  co_await first;
  auto second = comm::find_row(net::Operation::AllReduce, "ring").run(world, by_ring);
  co_await second;
  *disagreements += one != two;  // small whole numbers: the sums are exact, whatever their order
}

task::Task<void> run_all(net::LoopbackWorld* world, task::PendingOps* waits, int* disagreements) {
  task::Scope ranks(*waits);
  for (int r = 0; r < world->size(); ++r) ranks.spawn(rank(&world->transport(Rank(r)), disagreements));
  co_await ranks.join();
}

int main() {
  task::PollLoop loop;
  net::LoopbackWorld world(loop, 5);
  task::PendingOps waits;
  int disagreements = 0;
  auto all = run_all(&world, &waits, &disagreements);
  loop.run(std::move(all));
  std::cout << (disagreements == 0 ? "star and ring agree on all ranks\n" : "star and ring DISAGREE\n");
  return disagreements;
}
