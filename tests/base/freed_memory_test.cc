#include "base/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <thread>
#include <vector>

namespace taxon::test {
namespace {

constexpr std::size_t kPage = 4096;
using Block = std::vector<char>;

/// As a step's activations: none is freed before the last is there.
void touch_blocks() {
  std::vector<Block> blocks;
  for (int i = 0; i < 40; ++i) blocks.emplace_back(4 << 20, 'a');
  blocks.emplace_back(40 << 20, 'a');
}

long faults_here() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST(FreedMemory, ServesTheNextStepOfAThread) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "its malloc is the sanitizer's, to which mallopt() does nothing";
#endif
  keep_freed_memory();
  long first = 0, second = 0;
  std::thread([&] {
    const long begin = faults_here();
    touch_blocks();
    first = faults_here() - begin;
    touch_blocks();
    second = faults_here() - begin - first;
  }).join();
  EXPECT_LT(second, static_cast<long>((40 << 20) / kPage / 10)) << first << " the first time";
}

}  // namespace
}  // namespace taxon::test
