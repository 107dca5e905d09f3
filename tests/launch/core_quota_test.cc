#include "launch/core_quota.h"

#include "launch/core_pressure.h"
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

TEST_F(CoreQuota, PausesAreCountedInAllGroupsAround) {
  write("membership", "0::/pod/worker\n");
  EXPECT_EQ(quota_pauses(groups()), 0U);
  write("pod/worker/cpu.stat", "usage_usec 12\nnr_periods 9\nnr_throttled 3\nthrottled_usec 500\n");
  write("pod/cpu.stat", "nr_periods 9\nnr_throttled 4\n");
  EXPECT_EQ(quota_pauses(groups()), 7U);
}

TEST_F(CoreQuota, ThreadsThatItPausedSayNothingOfOthers) {
  write("membership", "0::/pod\n");
  write("pod/cpu.stat", "nr_throttled 3\n");
  write("tasks/1/schedstat", "0 0 0");
  CorePressure pressure((root_ / "tasks").string(), groups());
  write("tasks/1/schedstat", "1000 3000 0");
  EXPECT_NEAR(pressure.take_share_of_others().value_or(-1), 0.75, 1e-9);
  write("tasks/1/schedstat", "2000 6000 0");
  write("pod/cpu.stat", "nr_throttled 4\n");
  EXPECT_EQ(pressure.take_share_of_others(), std::nullopt);
  write("tasks/1/schedstat", "3000 7000 0");
  EXPECT_NEAR(pressure.take_share_of_others().value_or(-1), 0.5, 1e-9);
}

TEST_F(CoreQuota, AContainerMaySeeItsGroupAsTheRoot) {
  write("membership", "0::/docker/4f5a\n");
  write("cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2);
}

}  // namespace
}  // namespace taxon::launch
