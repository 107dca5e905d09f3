// A collective of one's own (star.h), which has the form of a row of Taxon's table and runs over any
// transport, compared with the table's ring.
#include <taxon/comm.h>

#include <iostream>
#include <vector>

#include "star.h"

using namespace taxon;

task::Task<void> rank(net::Transport* transport, int* disagreements) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < runtime.world_size(); ++r) everybody.push_back(Rank(r));
  comm::Communicator world(runtime, "world", everybody);
  co_await world.establish();

  std::vector<double> one(1009);  // a length that no number of ranks divides
  for (std::size_t i = 0; i < one.size(); ++i) one[i] = static_cast<double>(i) * (runtime.rank().value() + 1);
  std::vector<double> two = one;
  comm::Call by_star{as_view(std::span(one)), DType::Float64},
      by_ring{as_view(std::span(two)), DType::Float64};
  co_await star().run(world, by_star);
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
