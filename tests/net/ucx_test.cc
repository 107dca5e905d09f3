// What only the real transport does: death, sleep, places, limits.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "net/ucx/ucx_transport.h"
#include "support/worlds.h"

namespace taxon::net {
namespace {

using task::Task;
using test::Process;
using test::run_processes;
using test::UcxRank;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

#if TAXON_TEST_UCX

/// One empty message each way, so that both endpoints exist.
Task<void> greet(Transport& net) {
  Rank peer(1 - net.rank().value());
  RecvOp recv(net, peer, Tag{.unit = 99}, {}, DType::UInt8);
  SendOp send(net, peer, Tag{.unit = 99}, {}, DType::UInt8);
  co_await send;
  co_await recv;
}

Task<void> pause(Transport& net, Duration length) {
  task::SleepUntil sleep(net.executor(), net.waits(), net.executor().now() + length);
  co_await sleep;
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Ucx : public testing::TestWithParam<const char*> {
 protected:
  ProcessTransportOptions options() const {
    std::string transport = GetParam();
    return {.transport = transport, .devices = transport == "tcp" ? "lo" : ""};
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, Ucx, testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Ucx, AnIdleRankUsesNoProcessor) {
  test::run_ucx(
      2,
      [](Transport& net) -> Task<void> {
        auto hello = greet(net);
        co_await hello;
        double before = thread_cpu_seconds();
        if (net.rank() == Rank(0)) {
          AwaitSignalOp raised(net, Rank(1), Tag{}, 0, 1);
          RecvOp recv(net, Rank(1), Tag{}, {}, DType::UInt8);
          co_await raised;
          co_await recv;
          EXPECT_LT(thread_cpu_seconds() - before, 0.1);
        } else {
          auto wait = pause(net, std::chrono::milliseconds(500));
          co_await wait;
          PutOp put(net, {}, nullptr, 0, {Rank(0), 0}, 1);
          SendOp send(net, Rank(0), Tag{}, {}, DType::UInt8);
          co_await put;
          co_await send;
        }
      },
      options());
}

TEST_P(Ucx, TheFirstMessageOfAllWakesASleeper) {
  // The receiver sleeps before anybody has connected to it.
  for (int repetition = 0; repetition < 10; ++repetition)
    test::run_ucx(
        2,
        [](Transport& net) -> Task<void> {
          if (net.rank() == Rank(1)) {
            auto wait = pause(net, std::chrono::milliseconds(30));
            co_await wait;
            PutOp put(net, {}, nullptr, 0, {Rank(0), 0}, 1);
            co_await put;
          } else {
            AwaitSignalOp raised(net, Rank(1), Tag{}, 0, 1);
            co_await raised;
          }
          auto end = greet(net);
          co_await end;
        },
        options());
}

TEST_P(Ucx, APeerThatLeavesIsNoErrorToWhoNeedsNothingOfIt) {
  test::run_ucx(
      2,
      [](Transport& net) -> Task<void> {
        auto hello = greet(net);
        co_await hello;
        if (net.rank() == Rank(1)) co_return;
        auto wait = pause(net, std::chrono::milliseconds(100));
        co_await wait;
        EXPECT_EQ(net.waits().cancelled(), nullptr);
      },
      options());
}

TEST_P(Ucx, MessagesOfAnotherLifeAreThrownAway) {
  auto codes = run_processes(2, [&](Process& process) {
    ProcessTransportOptions mine = options();
    mine.job_epoch = static_cast<std::uint32_t>(process.index());
    UcxRank rank(process, mine);
    rank.run([&](Transport& net) -> Task<void> {
      Rank peer(1 - net.rank().value());
      SendOp send(net, peer, Tag{}, {}, DType::UInt8);
      co_await send;
      while (rank.transport().stale_messages() == 0) {
        auto wait = pause(net, std::chrono::milliseconds(1));
        co_await wait;
      }
    });
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST_P(Ucx, AWorldBesideADeadRankEndsWhenItIsCancelled) {
  auto codes = run_processes(3, [&](Process& process) {
    UcxRank rank(process, options());
    rank.run([&](Transport& net) -> Task<void> {
      if (net.rank() == Rank(2)) kill(getpid(), SIGKILL);
      std::vector<std::byte> large(16 << 20);
      SendOp to_the_dead(net, Rank(2), Tag{}, ConstView(large.data(), large.size()), DType::UInt8);
      RecvOp from_the_dead(net, Rank(2), Tag{}, {}, DType::UInt8);
      auto wait = pause(net, std::chrono::milliseconds(20));
      try {
        co_await wait;
        net.waits().cancel(std::make_exception_ptr(Error(ErrorKind::PeerLost, "as liveness says")));
      } catch (const Error& error) {  // TCP may know first
        EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
      }
    });
    return 0;
  });
  EXPECT_THAT(codes, ElementsAre(0, 0, 128 + SIGKILL));
}

TEST(UcxTcp, NoticesADeadPeerByItself) {
  auto codes = run_processes(2, [](Process& process) {
    UcxRank rank(process, {.transport = "tcp", .devices = "lo"});
    rank.run([](Transport& net) -> Task<void> {
      auto hello = greet(net);
      co_await hello;
      if (net.rank() == Rank(1)) kill(getpid(), SIGKILL);
      RecvOp recv(net, Rank(1), Tag{}, {}, DType::UInt8);
      bool lost = false;
      try {
        co_await recv;
      } catch (const Error& error) {
        lost = error.kind() == ErrorKind::PeerLost && error.context().rank == Rank(1);
      }
      EXPECT_TRUE(lost);
    });
    return 0;
  });
  EXPECT_THAT(codes, ElementsAre(0, 128 + SIGKILL));
}

/// The paths that rank 0 reports to rank 1 with these options, before and after a message.
std::string path_after_greeting(Process& process, ProcessTransportOptions options) {
  UcxRank rank(process, options);
  rank.run(greet);
  Path path = rank.transport().path(Rank(1 - process.index()));
  process.barrier();
  return path.name + (path.shared_memory ? ", shared" : "");
}

TEST(UcxPath, NamesWhatCarriesTheBytes) {
  auto codes = run_processes(2, [](Process& process) {
    EXPECT_EQ(path_after_greeting(process, {.transport = "auto"}), "shared memory (sysv), shared");
    EXPECT_EQ(path_after_greeting(process, {.transport = "posix"}), "shared memory (posix), shared");
    EXPECT_EQ(path_after_greeting(process, {.transport = "tcp", .devices = "lo"}), "tcp lo");
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(UcxPath, TheUsersChoiceWins) {
  auto codes = run_processes(2, [](Process& process) {
    setenv("UCX_TLS", "tcp,self", 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
    EXPECT_EQ(path_after_greeting(process, {.transport = "shm", .devices = "none"}), "tcp lo");
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(UcxPath, DifferentHostsShareNoMemory) {
  auto codes = run_processes(2, [](Process& process) {
    task::PollLoop loop;
    task::Waits waits;
    UcxTransport net(
        loop, waits,
        {.rank = Rank(process.index()), .world_size = 2, .host = std::to_string(process.index())});
    std::vector<PeerInfo> peers;
    for (auto& address : process.exchange(net.self().address))
      peers.push_back({address, std::to_string(peers.size())});
    net.connect(peers);
    loop.add(net);
    test::run_transports(loop, {&net}, greet);
    EXPECT_THAT(net.path(Rank(1 - process.index())).name, HasSubstr("tcp"));
    EXPECT_FALSE(net.path(Rank(1 - process.index())).shared_memory);
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(UcxLimits, AskingForTooMuchMemorySaysWhatToDo) {
  auto codes = run_processes(1, [](Process& process) {
    // Whatever goes wrong here must not fill the memory of the machine.
    signal(SIGXFSZ, SIG_IGN);
    rlimit file_size{64 << 20, 64 << 20};
    setrlimit(RLIMIT_FSIZE, &file_size);
    for (const char* transport : {"auto", "posix"}) {
      UcxRank rank(process, {.transport = transport});
      std::string message;
      try {
        rank.transport().allocate(std::size_t{1} << 50);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Transport);
        message = error.what();
      }
      EXPECT_THAT(message, HasSubstr("transport: tcp"));
      EXPECT_THAT(message, HasSubstr("/dev/shm"));
    }
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(UcxAddress, OfAnotherVersionIsRefused) {
  auto codes = run_processes(1, [](Process&) {
    task::PollLoop loop;
    task::Waits waits;
    UcxTransport net(loop, waits, {.rank = Rank(0), .world_size = 2, .transport = "tcp"});
    PeerInfo damaged = net.self();
    damaged.address[0] ^= std::byte{1};
    EXPECT_THROW(net.connect({net.self(), damaged}), Error);
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

#endif

TEST(UcxChoice, UnknownTransportsAreListed) {
  task::PollLoop loop;
  task::Waits waits;
  try {
    UcxTransport net(loop, waits, {.transport = "ucx"});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("tcp: TCP only"));
  }
}

}  // namespace
}  // namespace taxon::net
