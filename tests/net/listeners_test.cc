// Where ranks listen: at nothing that the job does not need.
#include "support/listeners.h"

#include <gmock/gmock.h>

#include "net/local_address.h"
#include "net/transport_choice.h"
#include "support/hosts.h"
#include "support/worlds.h"

#if TAXON_TEST_UCX

namespace taxon::net {
namespace {

using test::listening_addresses;
using test::Process;
using test::run_processes;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

class Listeners : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Transports, Listeners, testing::ValuesIn(test::built(transport_names())),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Listeners, OfAJobOnOneHostAreNotBeyondLoopback) {
  const bool shared = find_transport_choice(GetParam()).memory == TransportChoice::Memory::Shared;
  auto codes = run_processes(2, [&](Process& process) {
    test::ProcessRank rank(process, {.transport = GetParam()});
    rank.run(test::greet);
    if (shared)
      EXPECT_THAT(listening_addresses(), IsEmpty());
    else
      EXPECT_THAT(listening_addresses(), ElementsAre(kLoopbackAddress));
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

/// The exit code of a process that may not make a network of its own.
constexpr int kNotAllowed = 77;

TEST_P(Listeners, BetweenHostsAreAtTheJobsAddressOnly) {
  auto codes = run_processes(1, [&](Process&) {
    if (!test::enter_network_of_its_own()) return kNotAllowed;
    task::PollLoop loop;
    task::PendingOps waits;
    auto net = make_transport(loop, waits,
                              {.rank = Rank(0),
                               .world_size = 2,
                               .host = "here",
                               .transport = GetParam(),
                               .address = "10.9.0.1",
                               .hosts = ProcessTransportOptions::Hosts::Several});
    EXPECT_THAT(listening_addresses(), Each(AnyOf("10.9.0.1", kLoopbackAddress)));
    return 0;
  });
  if (codes == std::vector<int>{kNotAllowed}) GTEST_SKIP() << "no network namespaces here";
  EXPECT_THAT(codes, Each(0));
}

// Containers of one machine in its network, which share no memory.
TEST(Containers, ThatShareANetworkMeetAtLoopback) {
  auto codes = run_processes(2, [](Process& process) {
    const auto host_of = [](std::size_t rank) { return rank == 0 ? std::string("a") : std::string("b"); };
    task::PollLoop loop;
    task::PendingOps waits;
    auto net = test::connect_on_hosts(process, loop, waits, {.transport = "auto"}, host_of);
    loop.add(*net);
    process.barrier();
    test::run_transports(loop, {net.get()}, test::greet);
    EXPECT_EQ(net->path(Rank(1 - process.index())).name, "tcp lo");
    EXPECT_THAT(listening_addresses(), ElementsAre(kLoopbackAddress));
    process.barrier();
    loop.remove(*net);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(JobAddress, OfOneMachineIsLoopback) {
  EXPECT_EQ(job_address(Rank(0), {{"a", "127.0.0.1"}, {"a", "127.0.0.1"}}), kLoopbackAddress);
  EXPECT_EQ(job_address(Rank(0), {{"a", "127.0.0.1"}, {"b", "127.0.0.1"}}), "127.0.0.1");
}

TEST(JobAddress, IsTheOneTowardsAnotherHost) {
  auto codes = run_processes(1, [](Process&) {
    if (!test::enter_network_of_its_own()) return kNotAllowed;
    EXPECT_EQ(job_address(Rank(0), {{"a", "127.0.0.1"}, {"a", "127.0.0.1"}, {"b", "10.8.0.7"}}), "10.8.0.1");
    EXPECT_EQ(job_address(Rank(1), {{"a", "10.9.0.2"}, {"b", "10.9.0.1"}}), "10.9.0.1");
    EXPECT_EQ(interface_of("10.9.0.1"), "one");
    EXPECT_EQ(interface_of("127.0.0.1"), "lo");
    EXPECT_EQ(interface_of("10.9.0.7"), "");
    EXPECT_THROW(job_address(Rank(0), {{"a", "127.0.0.1"}, {"b", "192.0.2.1"}}), Error);
    return 0;
  });
  if (codes == std::vector<int>{kNotAllowed}) GTEST_SKIP() << "no network namespaces here";
  EXPECT_THAT(codes, Each(0));
}

}  // namespace
}  // namespace taxon::net

#endif
