// What only the real transport does: death, sleep, places, limits.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "net/routed_transport.h"
#include "support/worlds.h"
#if TAXON_TEST_UCX
#include "net/ucx/context.h"
#endif

namespace taxon::net {
namespace {

using task::Task;
using test::greet;
using test::Process;
using test::run_processes;
using test::UcxRank;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

#if TAXON_TEST_UCX

// A process under a limit must not blame the peer that it could not map.
TEST(UcxErrors, ARefusalOfMemoryIsNoLostPeer) {
  EXPECT_EQ(ucx_path_error(Rank(3), UCS_ERR_NO_MEMORY, false).kind(), ErrorKind::Resources);
  EXPECT_EQ(ucx_path_error(Rank(3), UCS_ERR_SHMEM_SEGMENT, true).kind(), ErrorKind::Resources);
  // What a dead peer had is gone.
  EXPECT_EQ(ucx_path_error(Rank(3), UCS_ERR_SHMEM_SEGMENT, false).kind(), ErrorKind::PeerLost);
  for (ucs_status_t broken : {UCS_ERR_CONNECTION_RESET, UCS_ERR_ENDPOINT_TIMEOUT, UCS_ERR_UNREACHABLE})
    EXPECT_EQ(ucx_path_error(Rank(3), broken, true).kind(), ErrorKind::PeerLost);
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
    EXPECT_EQ(path_after_greeting(process, {.transport = "ucx-tcp"}), "ucx tcp lo");
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(UcxPath, TheUsersChoiceWins) {
  auto codes = run_processes(2, [](Process& process) {
    setenv("UCX_TLS", "tcp,self", 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
    EXPECT_EQ(path_after_greeting(process, {.transport = "shm"}), "ucx tcp lo");
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(UcxPath, DifferentHostsShareNoMemory) {
  auto codes = run_processes(2, [](Process& process) {
    task::PollLoop loop;
    task::PendingOps waits;
    RoutedTransport net(loop, waits,
                        {.rank = Rank(process.index()),
                         .world_size = 2,
                         .host = std::to_string(process.index()),
                         .transport = "ucx-tcp"});
    std::vector<PeerInfo> peers;
    for (auto& address : process.exchange(net.self().address))
      peers.push_back({address, std::to_string(peers.size())});
    net.connect(peers);
    loop.add(net);
    test::run_transports(loop, {&net}, greet);
    net.drain();
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
    task::PendingOps waits;
    RoutedTransport net(loop, waits, {.rank = Rank(0), .world_size = 2, .transport = "ucx-tcp"});
    PeerInfo damaged = net.self();
    damaged.address[sizeof(std::uint64_t)] ^= std::byte{1};  // behind the card's length
    EXPECT_THROW(net.connect({net.self(), damaged}), Error);
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

#endif

TEST(UcxChoice, UnknownTransportsAreListed) {
  task::PollLoop loop;
  task::PendingOps waits;
  try {
    RoutedTransport net(loop, waits, {.transport = "ucx"});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("tcp: Taxon's TCP only"));
  }
}

}  // namespace
}  // namespace taxon::net
