#include "plan/cluster.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"

namespace taxon::plan {
namespace {

using testing::HasSubstr;

constexpr const char* kSoundCluster = R"(name: small
hosts:
  - {name: node, count: 2, devices: 2, cores: 4,
     device: {flops: 100 GFLOP/s, memory_bandwidth: 10 GB/s, memory: 16GiB},
     inside: {latency: 1us, bandwidth: 5 GB/s},
     network: {latency: 50us, overhead: 2 us, bandwidth: 1 Gbit/s}}
switch: {oversubscription: 2}
detection: 200ms
stragglers:
  - {rank: 1, slowdown: 2, at: 1 s, until: 2 s, probability: 0.5}
faults:
  - {kind: kill, rank: 3, at: 2 s}
  - {kind: cut_link, host: node0, peer: node1, at: 1, until: 1.5}
  - {kind: delay, bound: 5 ms}
)";

std::string cluster_problems(const std::string& yaml, int world_size = 0) {
  try {
    parse_cluster(yaml, "c.yaml", world_size);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return "";
}

TEST(Cluster, IsReadWithItsUnits) {
  ClusterModel cluster = parse_cluster(kSoundCluster, "c.yaml", 4);
  ASSERT_EQ(cluster.hosts.size(), 1u);
  const HostModel& host = cluster.hosts[0];
  EXPECT_DOUBLE_EQ(host.device.flops, 1e11);
  EXPECT_DOUBLE_EQ(host.device.memory_bandwidth, 1e10);
  EXPECT_EQ(host.device.memory, 16LL << 30);
  EXPECT_DOUBLE_EQ(host.network.bandwidth, 125e6);
  EXPECT_DOUBLE_EQ(host.network.latency, 50e-6);
  EXPECT_DOUBLE_EQ(host.network.overhead, 2e-6);
  EXPECT_DOUBLE_EQ(cluster.detection, 0.2);
  EXPECT_DOUBLE_EQ(cluster.faults[2].bound, 5e-3);
  EXPECT_EQ(capacity(cluster), 4);
  auto places = expand_hosts(cluster);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[1].name, "node1");
  EXPECT_EQ(places[1].first_rank, 2);
}

TEST(Cluster, AQuotaNeedsItsCores) {
  ClusterModel cluster = parse_cluster(kSoundCluster, "c.yaml");
  cluster.hosts[0].quota_period = 0.01;
  EXPECT_TRUE(cluster_problems(cluster).empty());
  cluster.hosts[0].cores = 0;
  EXPECT_THAT(cluster_problems(cluster),
              testing::ElementsAre(HasSubstr("hosts[0].cores is missing: quota_period")));
}

TEST(Cluster, IsReadBackAsWritten) {
  ClusterModel cluster = parse_cluster(kSoundCluster, "c.yaml");
  EXPECT_EQ(parse_cluster(write_cluster(cluster), "again"), cluster);
}

TEST(Cluster, AllProblemsAreListedAtOnce) {
  std::string problems = cluster_problems(R"(hosts:
  - {name: a, devices: 2, machine: lba, bandwith: 3,
     device: {flops: -1, memory_bandwidth: 1 Gbit},
     inside: {latency: 1us}}
  - {name: a, cores: 8, machine: lab, device: {flops: 1 GFLOP/s, memory_bandwidth: 1 GB/s, cache: 1MiB},
     network: {bandwidth: 1 Gbit/s}}
machines: [{name: lab, cores: 2}]
switch: {oversubscription: 0.5}
stragglers: [{slowdown: 2}, {rank: 9, host: b, slowdown: 0.5, at: 2 s, until: 1 s}]
faults: [{kind: kill}, {kind: slow_link, host: a}, {kind: explode}, {kind: cut_link, rank: 1, factor: 2}]
)",
                                          16);
  for (const char* expected : {
           "c.yaml:2: hosts[0].bandwith is no key; did you mean",
           "c.yaml:3: hosts[0].device.flops must be a speed such as 15 TFLOP/s",
           "hosts[0].device.memory_bandwidth must be a rate such as 1 Gbit/s or 12 GB/s",
           "c.yaml:8: switch.oversubscription must be",
           "kind must be one of kill, slow_device, slow_link, cut_link, delay, but is \"explode\"",
           "hosts[0].device.flops is missing",
           "hosts[0].inside.bandwidth is missing",
           "hosts[1].device.cache_bandwidth is missing",
           "hosts[0].network.bandwidth is missing",
           "hosts[0].machine is \"lba\", which machines does not list; did you mean lab?",
           "hosts[1].cores is 8, but machine \"lab\" has 2",
           "hosts: two are called \"a\"",
           "stragglers[0]: exactly one of rank and host must be given; neither is",
           "stragglers[1]: exactly one of rank and host must be given; both are",
           "stragglers[1].rank is 9, but there are ranks 0 to 2",
           "stragglers[1].host is \"b\", which is no host",
           "stragglers[1].until (1 s) is not after .at (2 s)",
           "stragglers[1].slowdown must be given, at least 1",
           "faults[0].rank is missing",
           "faults[1].factor must be given",
           "faults[3].rank means nothing to kind cut_link",
           "faults[3].factor means nothing to kind cut_link",
           "faults[3].host is missing",
           "16 ranks do not fit: the cluster holds 3 (2 hosts)",
       })
    EXPECT_THAT(problems, HasSubstr(expected));
}

TEST(Cluster, AMissingUnitIsNoticed) {
  const std::string problems = cluster_problems(R"(hosts:
  - {name: a, count: 2, device: {flops: 15, memory_bandwidth: 1 GB/s}, network: {bandwidth: 10, send_speed: 1, receive_speed: 2}}
faults: [{kind: slow_link, host: a0, factor: 2, until: 1e9 s}]
)");
  EXPECT_THAT(problems,
              HasSubstr("hosts[0].device.flops is 15 a second, which no machine is: is its unit missing"));
  EXPECT_THAT(problems, HasSubstr("hosts[0].network.bandwidth is 10 a second"));
  EXPECT_THAT(problems, HasSubstr("hosts[0].network.send_speed is 1 a second"));
  EXPECT_THAT(problems, HasSubstr("hosts[0].network.receive_speed is 2 a second"));
  EXPECT_THAT(problems, HasSubstr("faults[0].until must be"));
}

TEST(Cluster, HasNoMoreRanksThanNumbersOfThem) {
  ClusterModel cluster = parse_cluster(kSoundCluster, "c.yaml");
  cluster.hosts[0].count = 1 << 10;
  cluster.hosts[0].devices = 1 << 21;
  EXPECT_THAT(cluster_problems(cluster),
              testing::ElementsAre(HasSubstr("they hold 2147483648 ranks, but ranks are numbered up to")));
  EXPECT_GT(capacity(cluster), 0);
  EXPECT_GT(expand_hosts(cluster).back().first_rank, 0);
}

TEST(Cluster, AnEmptyFileIsNoCluster) {
  EXPECT_THAT(cluster_problems(""), HasSubstr("hosts is missing"));
  EXPECT_THAT(cluster_problems("just text"), HasSubstr("c.yaml:1: a cluster file is a list of"));
}

TEST(Cluster, BundledFilesAreSound) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TAXON_SOURCE_DIR "/clusters")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    ClusterModel cluster = read_cluster(entry.path());
    EXPECT_EQ(cluster.name, entry.path().stem());
    EXPECT_TRUE(cluster.faults.empty());
  }
  EXPECT_GE(count, 5);
}

}  // namespace
}  // namespace taxon::plan
