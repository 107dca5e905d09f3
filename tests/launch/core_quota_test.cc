#include "launch/core_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace taxon::launch {
namespace {

class CoreQuota : public testing::Test {
 protected:
  CoreQuota() : root_(std::filesystem::path(testing::TempDir()) / "core_quota") {
    std::filesystem::remove_all(root_);
  }
  ~CoreQuota() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  double quota() { return core_quota(root_ / "membership", root_).cores; }
  std::filesystem::path root_;
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
  EXPECT_DOUBLE_EQ(core_quota(root_ / "membership", root_).period, 0.01);
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
