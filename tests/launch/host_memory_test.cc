#include "launch/host_memory.h"

#include "launch/group_files.h"

namespace taxon::launch {
namespace {

class HostMemoryTest : public GroupFiles {
 protected:
  HostMemoryTest() {
    write("meminfo", "MemTotal:       4096 kB\nMemFree:  100 kB\nMemAvailable:   3072 kB\n");
    write("membership", "0::/pod/worker\n");
  }
  std::uint64_t available() { return host_memory(groups(), root_ / "meminfo").available; }
};

TEST_F(HostMemoryTest, IsTheMachinesWithoutALimit) {
  EXPECT_EQ(host_memory(groups(), root_ / "meminfo").total, 4096u << 10);
  EXPECT_EQ(available(), 3072u << 10);
  write("pod/worker/memory.max", "max\n");
  write("pod/worker/memory.current", "1000\n");
  EXPECT_EQ(available(), 3072u << 10);
}

TEST_F(HostMemoryTest, IsWhatTheTightestGroupLeaves) {
  write("pod/memory.max", "2000000\n");
  write("pod/memory.current", "500000\n");
  EXPECT_EQ(available(), 1500000u);
  write("pod/memory.stat", "anon 1\ninactive_file 100000\n");  // files that would be given up
  EXPECT_EQ(available(), 1600000u);
  write("pod/worker/memory.max", "1000\n");
  write("pod/worker/memory.current", "4000\n");
  EXPECT_EQ(available(), 0u);
}

TEST_F(HostMemoryTest, Version1SaysNoLimitByAHugeNumber) {
  write("membership", "4:memory:/job\n2:cpu,cpuacct:/job\n");
  write("memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/job/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(available(), 3072u << 10);
  write("memory/job/memory.limit_in_bytes", "3000000\n");
  EXPECT_EQ(available(), 2000000u);
}

TEST_F(HostMemoryTest, IsNotKnownWithoutAKernelThatSaysIt) {
  EXPECT_EQ(host_memory(groups(), root_ / "none").available, 0u);
}

}  // namespace
}  // namespace taxon::launch
