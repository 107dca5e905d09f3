// Four ranks in one process sum a vector: straight-line coroutines over a transport, no network, no threads.
#include <taxon/comm.h>

#include <iostream>
#include <vector>

using namespace taxon;

// What one rank does. Its parameters are pointers to what outlives it.
task::Task<void> rank(net::Transport* transport) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < runtime.world_size(); ++r) everybody.push_back(Rank(r));
  comm::Communicator world(runtime, "world", everybody);
  co_await world.establish();

  std::vector<float> mine(5, static_cast<float>(runtime.rank().value() + 1));
  comm::Call call{as_view(std::span(mine)), DType::Float32};
  const auto& ring = comm::find_row(net::Operation::AllReduce, "ring");
  co_await ring.run(world, call);  // a task is named first and awaited next
  std::cout << "rank " << runtime.rank().value() << " holds " << mine[0] << " five times\n";
}

task::Task<void> run_all(net::LoopbackWorld* world, task::PendingOps* waits) {
  task::Scope ranks(*waits);
  for (int r = 0; r < world->size(); ++r) ranks.spawn(rank(&world->transport(Rank(r))));
  co_await ranks.join();
}

int main() {
  task::PollLoop loop;
  net::LoopbackWorld world(loop, 4);
  task::PendingOps waits;
  auto all = run_all(&world, &waits);
  loop.run(std::move(all));
}
