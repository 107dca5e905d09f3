// Tensors without messages: rank 0 makes them, rank 1 uses them, first of a known shape, then of any. Two
// ranks in one process, to be short; with processes it is the same (02_all_reduce_processes.cc).
#include <taxon/comm.h>

#include <algorithm>
#include <iostream>

using namespace taxon;
using comm::TensorShape;

float largest(View tensor) {
  auto values = as_span<float>(tensor);
  return *std::max_element(values.begin(), values.end());
}

// The shape is known: rank 0 writes each tensor to where rank 1 uses it.
task::Task<void> known_shape(comm::Communicator* group, comm::TensorArena* arena) {
  const comm::TensorRoute route{.sender = 0, .receiver = 1, .unit = 0};
  const TensorShape shape = TensorShape::of(DType::Float32, {4, 256});
  if (group->rank() == 0) {
    auto opening = comm::StaticSender::open(*group, route, shape, {.depth = 2});
    auto sender = co_await opening;
    std::cout << sender->describe() << "\n";
    std::vector<float> gradient(1024);
    for (int step = 1; step <= 3; ++step) {
      gradient[static_cast<std::size_t>(step)] = static_cast<float>(step);
      co_await sender->send(as_view(std::span<float>(gradient)));  // the gradient may be overwritten now
    }
    co_await sender->close();
    co_return;
  }
  auto opening = comm::StaticReceiver::open(*group, *arena, route, shape, {.depth = 2});
  auto receiver = co_await opening;
  for (int step = 1; step <= 3; ++step) {
    comm::ReceivedTensor tensor = co_await receiver->receive();
    std::cout << "step " << step << ": the largest is " << largest(tensor.bytes()) << "\n";
    co_await receiver->release(std::move(tensor));  // the sender may use its place again
  }
  co_await receiver->close();
}

// The shape is known when the tensor is: it is born in the arena, and rank 1 uses it there.
task::Task<void> any_shape(comm::Communicator* group, comm::TensorArena* arena) {
  const comm::TensorRoute route{.sender = 0, .receiver = 1, .unit = 1};
  if (group->rank() == 0) {
    auto opening = comm::DynamicSender::open(*group, *arena, route, {.depth = 4});
    auto sender = co_await opening;
    std::cout << sender->describe() << "\n";
    for (int length = 1; length <= 3; ++length) {
      const TensorShape shape = TensorShape::of(DType::Float32, {length, 100});
      auto allocating = arena->allocate(shape.bytes(), "activations");
      comm::TensorBlock block = co_await allocating;
      auto values = as_span<float>(block.bytes());
      std::fill(values.begin(), values.end(), static_cast<float>(10 * length));
      co_await sender->send(std::move(block),
                            shape);  // the memory comes back to the arena when rank 1 has released it
    }
    co_await sender->close();
    co_return;
  }
  auto opening = comm::DynamicReceiver::open(*group, *arena, route, {.depth = 4}, comm::TensorRead::InPlace);
  auto receiver = co_await opening;
  for (int length = 1; length <= 3; ++length) {
    comm::ReceivedTensor tensor = co_await receiver->receive();
    std::cout << tensor.shape().describe() << ": the largest is " << largest(tensor.bytes()) << "\n";
    co_await receiver->release(std::move(tensor));
  }
  co_await receiver->close();
}

task::Task<void> rank(net::Transport* transport) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  comm::Communicator group(runtime, "world", {Rank(0), Rank(1)});
  comm::TensorArena arena(*transport, {.bytes = 1 << 20});
  co_await known_shape(&group, &arena);
  co_await any_shape(&group, &arena);
}

task::Task<void> both(net::LoopbackWorld* world) {
  task::PendingOps waits;
  task::Scope scope(waits);
  for (int r = 0; r < 2; ++r) scope.spawn(rank(&world->transport(Rank(r))));
  co_await scope.join();
}

int main() {
  try {
    task::PollLoop loop;
    net::LoopbackWorld world(loop, 2);
    loop.run(both(&world));
  } catch (const Error& error) {
    std::cerr << to_string(error.kind()) << ": " << error.what() << "\n";
    return exit_code(error.kind());
  }
}
