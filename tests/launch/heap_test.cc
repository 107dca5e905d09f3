#include "launch/heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "launch/group_files.h"

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

long huge_kib_of_this_process() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;)
    if (long kib = 0; word == "AnonHugePages:" && file >> kib) return kib;
  return 0;
}

/// Each in a process of its own, as other tests' threads leave heaps behind that are not this one's. Death
/// tests begin the program anew; the exit code says what was wrong.
class HeapDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "its malloc is the sanitizer's, to which nothing is done";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

int begin_heap(bool (*is_right)()) {
  tune_heap();
  return is_right() ? 0 : 1;
}

bool is_the_second_step_without_faults() {
  long second = 0;
  std::thread([&] {
    touch_blocks();
    const long begin = faults_here();
    touch_blocks();
    second = faults_here() - begin;
  }).join();
  return second < static_cast<long>((40 << 20) / kPage / 10);
}

bool lies_in_huge_pages() {
  const Block block(256 << 20, 'a');
  return huge_kib_of_this_process() > (128 << 20) / 1024;  // some memory may be in pieces
}

bool is_reserved_once() {
  const void* const end = sbrk(0);
  tune_heap();
  return sbrk(0) == end;
}

class HugePages : public GroupFiles {
 protected:
  std::string mode_of(const std::string& text) {
    write("enabled", text);
    return huge_pages_mode(root_ / "enabled");
  }
};

TEST_F(HugePages, AreGivenAsTheWordInBracketsSays) {
  EXPECT_EQ(mode_of("always [madvise] never\n"), "madvise");
  EXPECT_EQ(mode_of("[always] madvise never\n"), "always");
  EXPECT_EQ(mode_of("always madvise [never]\n"), "never");
  EXPECT_EQ(mode_of(""), "unknown");
  EXPECT_EQ(huge_pages_mode(root_ / "missing"), "unknown");
  for (const char* given : {"always", "madvise"}) EXPECT_TRUE(are_huge_pages_given(given));
  for (const char* refused : {"never", "unknown"}) EXPECT_FALSE(are_huge_pages_given(refused));
}

TEST_F(HeapDeathTest, FreedMemoryServesTheNextStepOfAThread) {
  EXPECT_EXIT(std::exit(begin_heap(is_the_second_step_without_faults)), ::testing::ExitedWithCode(0), "");
}

TEST_F(HeapDeathTest, LiesInHugePages) {
  if (!are_huge_pages_given(huge_pages_mode())) GTEST_SKIP() << "this system gives no huge pages";
  EXPECT_EXIT(std::exit(begin_heap(lies_in_huge_pages)), ::testing::ExitedWithCode(0), "");
}

TEST_F(HeapDeathTest, IsReservedOnce) {
  EXPECT_EXIT(std::exit(begin_heap(is_reserved_once)), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace taxon::launch
