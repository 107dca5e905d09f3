#include "launch/core_quota.h"

#include "launch/group_files.h"

namespace taxon::launch {
namespace {

class CoreQuota : public GroupFiles {
 protected:
  double quota() { return core_quota(groups()).cores; }
};

TEST_F(CoreQuota, Version2TakesTheLeastOfAllGroupsAround) {
  write("membership", "0::/pod/worker\n");
  EXPECT_EQ(quota(), 0);
  write("pod/worker/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("pod/worker/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CoreQuota, Version1LooksAtTheCpuControllerOnly) {
  write("membership", "4:memory:/job\n3:cpuset:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/x\n0::/\n");
  write("memory/job/cpu.cfs_quota_us", "1000");
  write("memory/job/cpu.cfs_period_us", "1000");
  EXPECT_EQ(quota(), 0);
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "4500");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "10000");
  EXPECT_EQ(quota(), 0.45);
  EXPECT_DOUBLE_EQ(core_quota(groups()).period, 0.01);
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(quota(), 0);
}

TEST_F(CoreQuota, AContainerMaySeeItsGroupAsTheRoot) {
  write("membership", "0::/docker/4f5a\n");
  write("cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2);
}

}  // namespace
}  // namespace taxon::launch
