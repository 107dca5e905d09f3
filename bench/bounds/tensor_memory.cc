// What the memory of this machine allows a tensor between two processes: threads of one process that do the
// same work without waiting for each other. in_place: one core finds the largest element of tensors that lie
// in memory in turn. put: one core copies tensors while another does that.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "side/tensors.h"

namespace taxon::bench {
namespace {

constexpr std::size_t kPlaces = 3;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Memory {
 public:
  Outcome measure(const Request& request) {
    const TensorContent content(request.bytes / sizeof(float));
    places_.assign(kPlaces, std::vector<float>(content.elements()));
    source_.assign(content.elements(), 0.0F);
    content.fill(source_.data());
    for (auto& place : places_) content.fill(place.data());
    largest_ = *std::max_element(source_.begin(), source_.end());
    right_ = true;
    const bool copies = request.variant == "put";
    run(1, copies);
    Outcome outcome;
    for (int block = 0; block < request.blocks; ++block)
      outcome.seconds.push_back(run(request.iterations, copies));
    outcome.verified = right_;
    return outcome;
  }

 private:
  double run(int count, bool copies) {
    double copying = 0;
    std::thread writer([&] {
      if (!copies) return;
      const auto begin = std::chrono::steady_clock::now();
      // Places of its own: the reader's would bounce between the caches in no order.
      for (int i = 0; i < count; ++i)
        std::memcpy(places_[static_cast<std::size_t>(i) % 2].data(), source_.data(),
                    source_.size() * sizeof(float));
      copying = seconds_since(begin);
    });
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      const auto& place = copies ? places_[2] : places_[static_cast<std::size_t>(i) % kPlaces];
      right_ = right_ && max_of(place.data(), place.size()) == largest_;
    }
    const double reading = seconds_since(begin);
    writer.join();
    return std::max(copying, reading) / count;
  }

  std::vector<std::vector<float>> places_;
  std::vector<float> source_;
  float largest_ = 0;
  bool right_ = true;
};

}  // namespace
}  // namespace taxon::bench

int main() {
  using namespace taxon::bench;
  CommandChannel channel(Place{});
  Memory memory;
  serve(channel, [&](const Request& request) { return memory.measure(request); });
}
