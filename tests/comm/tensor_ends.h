#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "comm/cases.h"
#include "comm/tensors/dynamic.h"
#include "comm/tensors/static.h"

namespace taxon::test {

/// A rank's place in a test of tensor channels: a communicator of all ranks, and an arena.
struct TensorPlace {
  explicit TensorPlace(net::Transport& transport, comm::TensorArenaOptions options = {.bytes = 1 << 20})
      : device(transport.executor()),
        runtime{transport, device, recorder},
        group(runtime, "tensors", Member::all_of(transport.world_size())),
        arena(transport, options) {}
  bool is(int rank) const { return group.rank() == rank; }

  tensor::CpuDevice device;
  comm::FlightRecorder recorder;
  comm::Runtime runtime;
  comm::Communicator group;
  comm::TensorArena arena;
};

/// Every byte depends on the tensor's number and on its place.
inline void fill_tensor(View bytes, std::uint64_t number) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes.data()[i] = static_cast<std::byte>(number * 131 + i * 7 + (i >> 8));
}
inline bool is_tensor(ConstView bytes, std::uint64_t number) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes.data()[i] != static_cast<std::byte>(number * 131 + i * 7 + (i >> 8))) return false;
  return true;
}

/// The same at both ends: shapes of at most `most` elements, a tenth of them empty.
inline comm::TensorShape random_shape(Rng& rng, std::int64_t most) {
  constexpr DType kTypes[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::UInt8};
  const DType type = kTypes[rng.below(4)];
  std::vector<std::int64_t> extents(rng.below(5));
  for (std::int64_t& extent : extents) {
    extent =
        rng.below(10) == 0 ? 0 : static_cast<std::int64_t>(1 + rng.below(static_cast<std::uint64_t>(most)));
    most = extent > 0 ? std::max<std::int64_t>(1, most / extent) : most;
  }
  return comm::TensorShape::of(type, extents);
}

/// Coroutine: nobody goes on before all have come.
inline task::Task<void> meet(comm::Communicator& group) {
  auto barrier = comm::find_row(net::Operation::Barrier, "dissemination").run(group, {});
  co_await barrier;
}

inline task::Task<void> pause(net::Transport& transport, Duration length) {
  task::SleepUntil sleep(transport.executor(), transport.pending(), transport.executor().now() + length);
  co_await sleep;
}

}  // namespace taxon::test
