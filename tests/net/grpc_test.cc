// What only the transports over gRPC do: ways to a peer, who may call, what a build without them says.
#include <gmock/gmock.h>

#include "net/transport_choice.h"
#include "support/worlds.h"
#if defined(TAXON_WITH_GRPC)
#include "net/grpc/endpoints.h"
#include "net/grpc/line.h"
#endif

namespace taxon::net {
namespace {

using task::Task;
using test::Process;
using test::run_processes;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TransportChoice, ThatABuildHasNotNamesThePackage) {
  const TransportChoice unbuilt{.name = "pigeon", .make = nullptr, .package = "libpigeon-dev"};
  EXPECT_THAT(what_is_missing(unbuilt), AllOf(HasSubstr("pigeon"), HasSubstr("install libpigeon-dev")));
  EXPECT_EQ(what_is_missing(find_transport_choice("auto")), "");
}

TEST(TransportChoice, OfGrpcIsAnothers) {
  task::PollLoop loop;
  task::PendingOps waits;
  EXPECT_THROW(RoutedTransport(loop, waits, {.transport = "grpc"}), Error);
}

#if defined(TAXON_WITH_GRPC)

constexpr std::uint32_t address(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}
constexpr std::uint32_t kMask24 = 0xffffff00;
const std::vector<Interface> kMine = {{"lo", address(127, 0, 0, 1), 0xff000000},
                                      {"docker0", address(172, 17, 0, 1), kMask24},
                                      {"eth0", address(10, 0, 0, 2), kMask24}};
constexpr Endpoint kLoopback{address(127, 0, 0, 1), 1}, kBridge{address(172, 17, 0, 1), 2},
    kFar{address(192, 168, 5, 9), 3}, kNear{address(10, 0, 0, 3), 4};

TEST(GrpcEndpoints, OfOtherHostsAreThoseOfASharedNetworkFirst) {
  EXPECT_THAT(reachable({kLoopback, kBridge, kFar, kNear}, Locality::OtherHost, kMine),
              ElementsAre(kNear, kFar));
  EXPECT_THAT(reachable({kLoopback, kBridge}, Locality::OtherHost, kMine), IsEmpty());
}

TEST(GrpcEndpoints, OfThisHostAreLoopbackFirst) {
  EXPECT_THAT(reachable({kNear, kLoopback, kBridge}, Locality::SameHost, kMine),
              ElementsAre(kLoopback, kNear, kBridge));
}

TEST(GrpcEndpoints, HaveNamesForGrpcAndForPeople) {
  EXPECT_EQ(target_of({kNear, kFar}), "ipv4:10.0.0.3:4,192.168.5.9:3");
  EXPECT_EQ(interface_towards("ipv4:10.0.0.3:4", kMine), "eth0");
  EXPECT_EQ(interface_towards("ipv4:192.168.5.9:3", kMine), "");
  EXPECT_EQ(interface_towards("unknown", kMine), "");
}

TEST(GrpcEndpoints, AreTheJobsAddressAndLoopback) {
  const auto only = find_interfaces(kLoopbackAddress);
  ASSERT_FALSE(only.empty());
  for (const Interface& one : only) EXPECT_EQ(one.name, "lo");
  EXPECT_THROW(find_interfaces("fe80::1"), Error);
}

ConstView view_of(const std::vector<std::byte>& bytes) { return ConstView(bytes.data(), bytes.size()); }

TEST(GrpcCardTest, ComesBackAndIsChecked) {
  const GrpcCard card{{3, 4}, {kNear, kFar}};
  std::vector<std::byte> bytes = card.pack();
  const GrpcCard back = GrpcCard::unpack(view_of(bytes));
  EXPECT_EQ(back.token, card.token);
  EXPECT_EQ(back.endpoints, card.endpoints);
  EXPECT_THROW(GrpcCard::unpack(view_of(bytes).slice(0, bytes.size() - 1)), Error);
  EXPECT_THROW(GrpcCard::unpack(view_of(bytes).slice(0, 5)), Error);
  bytes[0] ^= std::byte{1};
  EXPECT_THROW(GrpcCard::unpack(view_of(bytes)), Error);
}

#if TAXON_TEST_UCX

class Grpc : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Calls, Grpc, testing::Values("grpc", "grpc-unary"),
                         [](const auto& info) { return info.param == "grpc" ? "Streaming" : "Unary"; });

TEST_P(Grpc, NamesWhatCarriesTheBytes) {
  auto codes = run_processes(2, [&](Process& process) {
    test::ProcessRank rank(process, {.transport = GetParam()});
    const Rank peer(1 - process.index());
    rank.run([&](Transport& net) -> Task<void> {
      RecvOp recv(net, peer, Tag{}, {}, DType::UInt8);
      SendOp send(net, peer, Tag{}, {}, DType::UInt8);
      co_await send;
      co_await recv;
      // Both directions: what came back was sent after this rank's message had come.
      RecvOp answer(net, peer, Tag{.unit = 1}, {}, DType::UInt8);
      SendOp question(net, peer, Tag{.unit = 1}, {}, DType::UInt8);
      co_await question;
      co_await answer;
    });
    EXPECT_EQ(rank.transport().path(peer).name, GetParam() + " over tcp lo");
    EXPECT_FALSE(rank.transport().path(peer).shared_memory);
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

// gRPC's threads, which call OnDone, must not let go of a call that has the process's last channel.
TEST_P(Grpc, CallsAreLetGoOfByTheRanksThread) {
  auto codes = run_processes(1, [&](Process&) {
    const auto events = std::make_shared<Events>();
    const auto open = GetParam() == "grpc" ? open_streaming_line : open_unary_line;
    const std::string nobody = text_of({address(127, 0, 0, 1), 1});
    auto line = open({Rank(0), Rank(1), "ipv4:" + nobody, "", events});
    line->send({nullptr, 0});
    line->cancel();
    std::vector<EndedCall> ended;
    for (bool closed = false, failed = false; !closed || !failed; events->wait(std::chrono::seconds(1)))
      for (Event& event : events->take()) {
        if (auto* last = std::get_if<LineClosed>(&event)) {
          closed = true;
          ended.push_back(last->call);
        } else if (auto* send = std::get_if<SendFailed>(&event)) {
          failed = true;
          if (send->call) ended.push_back(send->call);
        }
      }
    line.reset();
    EXPECT_EQ(ended.size(), GetParam() == "grpc" ? 1u : 2u);
    for (const EndedCall& call : ended) EXPECT_EQ(call.use_count(), 1);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(GrpcLine, ThatWasLetGoOfSendsNothing) {
  auto codes = run_processes(1, [&](Process&) {
    const auto events = std::make_shared<Events>();
    auto line =
        open_streaming_line({Rank(0), Rank(1), "ipv4:" + text_of({address(127, 0, 0, 1), 1}), "", events});
    bool failed = false;
    std::vector<Event> ended;
    for (int look = 0; look < 20 && !failed; ++look) {
      events->wait(std::chrono::seconds(1));
      for (Event& event : events->take()) {
        if (std::holds_alternative<LineEnding>(event)) line->let_go();
        failed |= std::holds_alternative<SendFailed>(event);
        if (!std::holds_alternative<LineClosed>(event)) continue;
        ended.push_back(std::move(event));
        line->send({nullptr, 0});
      }
    }
    line.reset();
    return failed ? 0 : 1;
  });
  EXPECT_THAT(codes, Each(0));
}

// Rank 1 learned another token than rank 0's listener has.
TEST_P(Grpc, WhoDoesNotKnowTheTokenIsRefused) {
  auto codes = run_processes(2, [&](Process& process) {
    task::PollLoop loop;
    task::PendingOps waits;
    auto net = make_transport(
        loop, waits, {.rank = Rank(process.index()), .world_size = 2, .host = "h", .transport = GetParam()});
    std::vector<PeerInfo> peers;
    for (auto& address : process.exchange(net->self().address)) peers.push_back({address, "h"});
    if (process.index() == 1) peers[0].address[8] ^= std::byte{1};
    net->connect(peers);
    loop.add(*net);
    if (process.index() == 1) {
      std::string message;
      try {
        test::run_transports(loop, {net.get()}, [](Transport& to) -> Task<void> {
          AwaitSignalOp never(to, Rank(0), Tag{}, 0, 1);
          co_await never;
        });
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
        message = error.what();
      }
      EXPECT_THAT(message, HasSubstr("not a rank of this job"));
    }
    process.barrier();
    loop.remove(*net);
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

#endif
#endif

}  // namespace
}  // namespace taxon::net
