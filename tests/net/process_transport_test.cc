// What transports between processes do: death, sleep, other lives of the job.
#include <gmock/gmock.h>
#include <signal.h>
#include <time.h>

#include "support/worlds.h"

#if TAXON_TEST_UCX

namespace taxon::net {
namespace {

using task::Task;
using test::greet;
using test::Process;
using test::ProcessRank;
using test::run_processes;
using testing::Each;
using testing::ElementsAre;

Task<void> pause(Transport& net, Duration length) {
  task::SleepUntil sleep(net.executor(), net.pending(), net.executor().now() + length);
  co_await sleep;
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

ProcessTransportOptions options_for(const std::string& transport) { return {.transport = transport}; }

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class Processes : public testing::TestWithParam<std::string> {
 protected:
  ProcessTransportOptions options() const { return options_for(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Transports, Processes,
                         testing::ValuesIn(test::built({"shm", "tcp", "ucx-tcp", "grpc", "grpc-unary"})),
                         name_of);

TEST_P(Processes, AnIdleRankUsesNoProcessor) {
  test::run_ranks_as_processes(
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

TEST_P(Processes, TheFirstMessageOfAllWakesASleeper) {
  // The receiver sleeps before anybody has connected to it.
  for (int repetition = 0; repetition < 10; ++repetition)
    test::run_ranks_as_processes(
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

TEST_P(Processes, APeerThatLeavesIsNoErrorToWhoNeedsNothingOfIt) {
  test::run_ranks_as_processes(
      2,
      [](Transport& net) -> Task<void> {
        auto hello = greet(net);
        co_await hello;
        if (net.rank() == Rank(1)) co_return;
        auto wait = pause(net, std::chrono::milliseconds(100));
        co_await wait;
        EXPECT_EQ(net.pending().cancelled(), nullptr);
      },
      options());
}

TEST_P(Processes, MessagesOfAnotherLifeAreThrownAway) {
  auto codes = run_processes(2, [&](Process& process) {
    ProcessTransportOptions mine = options();
    mine.job_epoch = static_cast<std::uint32_t>(process.index());
    ProcessRank rank(process, mine);
    rank.run([&](Transport& net) -> Task<void> {
      Rank peer(1 - net.rank().value());
      SendOp send(net, peer, Tag{}, {}, DType::UInt8);
      co_await send;
      while (rank.transport().stale_fragments() == 0) {
        auto wait = pause(net, std::chrono::milliseconds(1));
        co_await wait;
      }
    });
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST_P(Processes, AWorldBesideADeadRankEndsWhenItIsCancelled) {
  auto codes = run_processes(3, [&](Process& process) {
    ProcessRank rank(process, options());
    rank.run([&](Transport& net) -> Task<void> {
      if (net.rank() == Rank(2)) kill(getpid(), SIGKILL);
      std::vector<std::byte> large(16 << 20);
      SendOp to_the_dead(net, Rank(2), Tag{}, ConstView(large.data(), large.size()), DType::UInt8);
      RecvOp from_the_dead(net, Rank(2), Tag{}, {}, DType::UInt8);
      auto wait = pause(net, std::chrono::milliseconds(20));
      try {
        co_await wait;
        net.pending().cancel(std::make_exception_ptr(Error(ErrorKind::PeerLost, "as liveness says")));
      } catch (const Error& error) {  // TCP may know first
        EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
      }
    });
    return 0;
  });
  EXPECT_THAT(codes, ElementsAre(0, 0, 128 + SIGKILL));
}

/// Sends until nothing more goes for a while: what the way to a rank that does not look can hold.
Task<void> fill_the_way(Transport& net, const Process& process) {
  constexpr std::size_t kMessages = 128;
  std::vector<std::byte> payload(1 << 20, std::byte{5});
  const ConstView view(payload.data(), payload.size());
  std::vector<std::unique_ptr<Op>> ops;
  for (std::size_t i = 0; i < kMessages; ++i)
    ops.push_back(std::make_unique<SendOp>(net, Rank(1), Tag{.unit = 7}, view, DType::UInt8));
  auto count = [&] { return std::count_if(ops.begin(), ops.end(), [](auto& op) { return op->done(); }); };
  for (std::ptrdiff_t before = -1, now = 0; now != before; now = count()) {
    before = now;
    auto wait = pause(net, std::chrono::milliseconds(200));
    co_await wait;
  }
  EXPECT_LT(count(), static_cast<std::ptrdiff_t>(kMessages));
  process.barrier();
  auto all = test::finish(ops);
  co_await all;
}

Task<void> look_late(Transport& net, const Process& process) {
  process.barrier();
  std::vector<std::byte> bytes(1 << 20);
  for (int i = 0; i < 128; ++i) {
    RecvOp recv(net, Rank(0), Tag{.unit = 7}, View(bytes.data(), bytes.size()), DType::UInt8);
    co_await recv;
    EXPECT_EQ(bytes.back(), std::byte{5});
  }
}

TEST_P(Processes, ASenderWaitsForAReceiverThatDoesNotLook) {
  auto codes = run_processes(2, [&](Process& process) {
    ProcessRank rank(process, options());
    rank.run([&](Transport& net) {
      return net.rank() == Rank(0) ? fill_the_way(net, process) : look_late(net, process);
    });
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

/// More than shared memory's queue of 64 holds, and less than queue and copies: all operations are done.
Task<void> send_ahead(Transport& net, std::size_t messages) {
  std::vector<std::byte> payload(4 << 10, std::byte{6});
  for (std::size_t i = 0; i < messages; ++i) {
    SendOp send(net, Rank(1), Tag{.unit = 7}, ConstView(payload.data(), payload.size()), DType::UInt8);
    co_await send;
  }
}
Task<void> receive_all(Transport& net, std::size_t messages) {
  std::vector<std::byte> bytes(4 << 10);
  for (std::size_t i = 0; i < messages; ++i) {
    RecvOp recv(net, Rank(0), Tag{.unit = 7}, View(bytes.data(), bytes.size()), DType::UInt8);
    co_await recv;
    EXPECT_EQ(bytes.back(), std::byte{6});
  }
}

// The sender's loop rests once its operations are done, with copies of fragments that found no room.
TEST(SharedMemory, DrainsSoThatASenderNeedNotPollOn) {
  constexpr std::size_t kAhead = 72;
  auto codes = run_processes(2, [&](Process& process) {
    setenv("UCX_MM_FIFO_SIZE", "64", 1);
    ProcessRank rank(process, {.transport = "shm"});
    rank.run(test::greet);
    if (process.index() == 0) {
      test::run_transports(rank.loop(), {&rank.transport()},
                           [](Transport& net) { return send_ahead(net, kAhead); });
      process.barrier();
      rank.transport().drain();
    } else {
      process.barrier();
      rank.run([](Transport& net) { return receive_all(net, kAhead); });
    }
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

class OverTcp : public Processes {};
INSTANTIATE_TEST_SUITE_P(Transports, OverTcp,
                         testing::ValuesIn(test::built({"tcp", "ucx-tcp", "grpc", "grpc-unary"})), name_of);

TEST_P(OverTcp, NoticesADeadPeerByItself) {
  auto codes = run_processes(2, [&](Process& process) {
    ProcessRank rank(process, options());
    rank.run([](Transport& net) -> Task<void> {
      auto hello = greet(net);
      co_await hello;
      // Rank 1 lives until its greeting has arrived.
      Rank peer(1 - net.rank().value());
      if (net.rank() == Rank(1)) {
        RecvOp heard(net, peer, Tag{.unit = 98}, {}, DType::UInt8);
        co_await heard;
        kill(getpid(), SIGKILL);
      }
      SendOp hear(net, peer, Tag{.unit = 98}, {}, DType::UInt8);
      co_await hear;
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

}  // namespace
}  // namespace taxon::net

#endif
