// What the memory of this machine allows a tensor between two processes: threads of one process that do the
// same work without waiting for each other. in_place: one core writes tensors in turn, while another reads
// and compares others that lie in memory. put: the first one copies each of its tensors, too.
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
    for (auto& place : places_) content.write(place.data(), 1);
    right_ = true;
    const bool copies = request.variant == "put";
    run(content, 1, copies);
    Outcome outcome;
    for (int block = 0; block < request.blocks; ++block)
      outcome.seconds.push_back(run(content, request.iterations, copies));
    outcome.verified = right_;
    return outcome;
  }

 private:
  double run(const TensorContent& content, int count, bool copies) {
    double writing = 0;
    std::thread writer([&] {
      const auto begin = std::chrono::steady_clock::now();
      // Places of its own: the reader's would bounce between the caches in no order.
      for (int i = 0; i < count; ++i) {
        float* const place = places_[static_cast<std::size_t>(i) % 2].data();
        content.write(copies ? source_.data() : place, static_cast<std::uint64_t>(i) + 1);
        if (copies) std::memcpy(place, source_.data(), source_.size() * sizeof(float));
      }
      writing = seconds_since(begin);
    });
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) right_ = right_ && content.consume(places_[2].data(), 1);
    const double reading = seconds_since(begin);
    writer.join();
    return std::max(writing, reading) / count;
  }

  std::vector<std::vector<float>> places_;
  std::vector<float> source_;
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
