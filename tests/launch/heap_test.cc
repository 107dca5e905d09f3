#include "launch/heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace taxon::launch {
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

/// Of the system's answers to who asks for huge pages, the one in brackets.
bool are_huge_pages_given() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  for (std::string word; file >> word;)
    if (word == "[madvise]" || word == "[always]") return true;
  return false;
}

long huge_kib_of_this_process() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;)
    if (long kib = 0; word == "AnonHugePages:" && file >> kib) return kib;
  return 0;
}

class Heap : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "its malloc is the sanitizer's, to which nothing is done";
#endif
    tune_heap();
  }
};

TEST_F(Heap, FreedMemoryServesTheNextStepOfAThread) {
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

TEST_F(Heap, LiesInHugePages) {
  if (!are_huge_pages_given()) GTEST_SKIP() << "this system gives no huge pages";
  const Block block(256 << 20, 'a');
  EXPECT_GT(huge_kib_of_this_process(), (128 << 20) / 1024);  // some memory may be in pieces
}

TEST_F(Heap, IsReservedOnce) {
  const void* const end = sbrk(0);
  tune_heap();
  EXPECT_EQ(sbrk(0), end);
}

}  // namespace
}  // namespace taxon::launch
