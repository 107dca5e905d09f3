// Gloo as PyTorch uses it: c10d::ProcessGroupGloo from libtorch. Always in place, as its interface is.
// --rank --ranks --host --port as every side; --address: own address of the network to use.
#include <torch/types.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "side/side.h"

namespace taxon::bench {
namespace {

class GlooAllReduce final : public AllReduce {
 public:
  explicit GlooAllReduce(c10d::ProcessGroupGloo& group) : group_(group) {}

  Buffers prepare(std::size_t elements, const std::string&) override {
    if (tensors_.empty() || tensors_[0].numel() != static_cast<std::int64_t>(elements)) {
      tensors_ = {torch::zeros({static_cast<std::int64_t>(elements)}, torch::kFloat32)};
    }
    auto* data = tensors_[0].data_ptr<float>();
    return {.input = data, .output = data};
  }

  double run(int iterations) override {
    group_.barrier()->wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < iterations; ++i) group_.allreduce(tensors_)->wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / iterations;
  }

 private:
  c10d::ProcessGroupGloo& group_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon::bench;
  const Place place = place_from(argc, argv);
  CommandChannel channel(place);
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<std::uint16_t>(place.port + 1);
  store_options.isServer = place.rank == 0;
  store_options.numWorkers = static_cast<std::size_t>(place.ranks);
  auto store = c10::make_intrusive<c10d::TCPStore>(place.host, store_options);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(option(argc, argv, "address", "127.0.0.1")));
  c10d::ProcessGroupGloo group(store, place.rank, place.ranks, options);
  GlooAllReduce side(group);
  serve(channel, [&](const Request& request) { return measure(side, place, request); });
}
