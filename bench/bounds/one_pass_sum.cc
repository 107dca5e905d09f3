// What the memory of this machine allows an all-reduce inside one host: threads of one process that read
// their range of all ranks' buffers once and write the sum into all of them, without waiting for each other.
// --buffers N: how many ranks to stand for; --threads T.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "side/side.h"

namespace taxon::bench {
namespace {

// The number of buffers is a constant so that the compiler vectorises across the elements.
template <std::size_t N>
[[gnu::always_inline]] inline void sum_elements(float* const* buffers, std::size_t begin, std::size_t end) {
  float* b[N];
  for (std::size_t n = 0; n < N; ++n) b[n] = buffers[n];
#pragma GCC ivdep
  for (std::size_t i = begin; i < end; ++i) {
    float total = b[0][i];
    for (std::size_t n = 1; n < N; ++n) total += b[n][i];
    for (std::size_t n = 0; n < N; ++n) b[n][i] = total;
  }
}

template <std::size_t N>
[[gnu::target("avx2")]] void sum_avx2(float* const* buffers, std::size_t begin, std::size_t end) {
  sum_elements<N>(buffers, begin, end);
}

template <std::size_t N>
void sum_plain(float* const* buffers, std::size_t begin, std::size_t end) {
  sum_elements<N>(buffers, begin, end);
}

using Sum = void (*)(float* const*, std::size_t, std::size_t);

Sum sum_of(std::size_t buffers) {
  constexpr Sum kPlain[] = {sum_plain<1>, sum_plain<2>, sum_plain<3>, sum_plain<4>,
                            sum_plain<5>, sum_plain<6>, sum_plain<7>, sum_plain<8>};
  constexpr Sum kAvx2[] = {sum_avx2<1>, sum_avx2<2>, sum_avx2<3>, sum_avx2<4>,
                           sum_avx2<5>, sum_avx2<6>, sum_avx2<7>, sum_avx2<8>};
  if (buffers < 1 || buffers > 8) throw std::runtime_error("--buffers is 1 to 8");
  return (__builtin_cpu_supports("avx2") ? kAvx2 : kPlain)[buffers - 1];
}

class OnePassSum {
 public:
  OnePassSum(std::size_t buffers, std::size_t threads)
      : buffers_(buffers), threads_(threads), sum_(sum_of(buffers)) {}

  Outcome measure(const Request& request) {
    const std::size_t elements = request.bytes / sizeof(float);
    std::vector<std::vector<float>> memory(buffers_, std::vector<float>(elements, 0.0F));
    std::vector<float*> data;
    for (auto& buffer : memory) data.push_back(buffer.data());
    Outcome outcome;
    for (int block = 0; block < request.blocks; ++block) {
      outcome.seconds.push_back(run(data, elements, request.iterations));
    }
    std::fill(memory[0].begin(), memory[0].end(), 1.0F);
    run(data, elements, 1);
    // The warm-up and one iteration: the buffers hold 1 after the first and `buffers_` after the second.
    const auto expected = static_cast<float>(buffers_);
    outcome.verified = std::all_of(memory.back().begin(), memory.back().end(),
                                   [&](float value) { return value == expected; });
    return outcome;
  }

 private:
  double run(const std::vector<float*>& data, std::size_t elements, int iterations) const {
    std::vector<double> seconds(threads_);
    std::vector<std::thread> workers;
    for (std::size_t t = 0; t < threads_; ++t) {
      workers.emplace_back([&, t] {
        const std::size_t begin = elements * t / threads_, end = elements * (t + 1) / threads_;
        sum_(data.data(), begin, end);
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < iterations; ++i) sum_(data.data(), begin, end);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        seconds[t] = took.count() / iterations;
      });
    }
    for (auto& worker : workers) worker.join();
    return *std::max_element(seconds.begin(), seconds.end());
  }

  std::size_t buffers_, threads_;
  Sum sum_;
};

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon::bench;
  CommandChannel channel(Place{});
  OnePassSum side(std::stoul(option(argc, argv, "buffers", "2")),
                  std::stoul(option(argc, argv, "threads", "2")));
  serve(channel, [&](const Request& request) { return side.measure(request); });
}
