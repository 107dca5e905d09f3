// What only Taxon's own TCP does: proofs, strangers, several connections, hosts with several ranks.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>

#include "base/rng.h"
#include "net/frames.h"
#include "net/tcp/network.h"
#include "support/errors.h"
#include "support/hosts.h"
#include "support/listeners.h"
#include "support/worlds.h"

namespace taxon::net {
namespace {

using task::Task;
using test::Process;
using test::run_processes;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

TEST(TcpHandshake, PacketsComeBack) {
  const tcp::Answer answer{.encryption = tcp::Encryption::Tls,
                           .nonce = tcp::random_word(),
                           .source = 3,
                           .target = 4,
                           .epoch = 5,
                           .fragment = 6,
                           .proof = tcp::random_word()};
  const auto bytes = tcp::encode(answer);
  const auto back = tcp::decode_answer(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(tcp::encode(*back), bytes);
  auto foreign = bytes;
  foreign[0] ^= std::byte{1};
  EXPECT_FALSE(tcp::decode_answer(foreign));
  EXPECT_FALSE(tcp::decode_verdict(std::array<std::byte, tcp::kVerdictBytes>{}));
}

TEST(TcpHandshake, ProvesTheSecretTheTokenAndAllThatWasSaid) {
  const unsigned char secret[] = {1, 2, 3}, other[] = {1, 2, 4};
  const tcp::Token token = tcp::random_token();
  const tcp::Key key(secret, token);
  const tcp::Challenge challenge{.nonce = tcp::random_word()};
  const tcp::Answer answer{.nonce = tcp::random_word(), .source = 1, .target = 2};
  const tcp::Word proof = key.prove(tcp::Key::Role::Caller, challenge, answer);
  EXPECT_TRUE(tcp::same(proof, tcp::Key(secret, token).prove(tcp::Key::Role::Caller, challenge, answer)));
  EXPECT_FALSE(tcp::same(proof, tcp::Key(other, token).prove(tcp::Key::Role::Caller, challenge, answer)));
  EXPECT_FALSE(tcp::same(
      proof, tcp::Key(secret, tcp::random_token()).prove(tcp::Key::Role::Caller, challenge, answer)));
  EXPECT_FALSE(tcp::same(proof, key.prove(tcp::Key::Role::Listener, challenge, answer)));
  tcp::Answer changed = answer;
  changed.source = 2;
  EXPECT_FALSE(tcp::same(proof, key.prove(tcp::Key::Role::Caller, challenge, changed)));
  EXPECT_FALSE(tcp::same(proof, key.tls(challenge, answer)));
}

TEST(TcpConnections, AreSeveralOnlyWhereAPathIsLongOrFat) {
  constexpr double kGigabit = 125e6, kBuffer = 2e6;
  EXPECT_EQ(tcp::connections_for(0.0002, kGigabit, kBuffer), 1);
  EXPECT_EQ(tcp::connections_for(0.0001, 100 * kGigabit, kBuffer), 1);
  EXPECT_EQ(tcp::connections_for(0.040, kGigabit, kBuffer), 3);
  EXPECT_EQ(tcp::connections_for(1, 100 * kGigabit, kBuffer), 8);
  EXPECT_EQ(tcp::connections_for(0, 0, kBuffer), 1);
}

TEST(TcpFrames, ConfirmationsPassPayloadsAndNotEachOther) {
  // Those of one fragment are told from those of another by their order alone.
  constexpr std::uint64_t kConfirmations = 20;
  Rng chance(20, "confirmations");
  for (int run = 0; run < 100; ++run) {
    std::deque<tcp::Frame> waiting;
    std::vector<std::uint64_t> gone;
    const auto send = [&] {
      if (waiting.front().header.kind == WireKind::Confirmation) gone.push_back(waiting.front().header.value);
      waiting.pop_front();
    };
    for (std::uint64_t next = 0; next < kConfirmations;) {
      tcp::Frame frame;
      if (chance.below(2) == 0) {
        frame.header.kind = WireKind::Confirmation;
        frame.header.value = next++;
        waiting.insert(tcp::place_of_urgent(waiting), frame);
        const bool begun = waiting.front().sent > 0;
        EXPECT_EQ(waiting[begun ? 1 : 0].header.kind, WireKind::Confirmation) << "behind payloads";
      } else {
        waiting.push_back(frame);
      }
      if (chance.below(3) == 0) waiting.front().sent = 1;
      if (chance.below(4) == 0) send();
    }
    while (!waiting.empty()) send();
    ASSERT_EQ(gone.size(), kConfirmations);
    EXPECT_TRUE(std::is_sorted(gone.begin(), gone.end())) << run;
  }
}

TEST(TcpFrames, OfAnyKindBreakAtMostTheInbox) {
  constexpr std::int64_t kOfASeed = 100'000;
  const char* asked = std::getenv("TAXON_FRAMES");
  const std::int64_t inputs = asked != nullptr ? std::atoll(asked) : kOfASeed / 4;
  std::vector<std::uint8_t> input;
  for (std::int64_t seed = 0; seed * kOfASeed < inputs; ++seed) {
    Rng chance(static_cast<std::uint64_t>(seed), "frames");
    for (std::int64_t i = seed * kOfASeed; i < std::min(inputs, (seed + 1) * kOfASeed); ++i) {
      input.resize(chance() % 400);
      for (std::size_t at = 0; at < input.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = chance();
        std::memcpy(input.data() + at, &word, std::min(sizeof word, input.size() - at));
      }
      test::feed_frames(input);
    }
  }
}

int call(std::uint16_t port) {
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(port);
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

TEST(TcpStream, IsReadableOnceWhatIsAwaitedIsThere) {
  constexpr std::size_t kAwaited = 200'000;
  const int listener = tcp::listen_at("127.0.0.1");
  const int caller = call(tcp::port_of(listener));
  tcp::Stream stream(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  close(listener);
  ASSERT_GE(stream.fd(), 0);
  const auto is_readable = [&](int ms) {
    pollfd readable{stream.fd(), POLLIN, 0};
    return ::poll(&readable, 1, ms) == 1;
  };
  std::vector<std::byte> bytes(kAwaited);
  const auto send = [&](std::size_t count) {
    ASSERT_EQ(::send(caller, bytes.data(), count, 0), static_cast<ssize_t>(count));
  };
  const iovec piece{bytes.data(), bytes.size()};
  stream.await(kAwaited);
  send(kAwaited - 1);
  EXPECT_FALSE(is_readable(20));
  send(1);
  EXPECT_TRUE(is_readable(10'000));
  EXPECT_EQ(stream.receive(&piece, 1).bytes, kAwaited);
  stream.await(1);
  send(1);
  EXPECT_TRUE(is_readable(10'000));
  EXPECT_EQ(stream.receive(&piece, 1).bytes, 1U);
  stream.await(kAwaited);
  close(caller);
  EXPECT_TRUE(is_readable(10'000)) << "an end is told at once";
}

TEST(TcpEncryption, AnEndThatNobodyCouldAnnounceIsAnEnd) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  std::optional<tcp::Stream> caller(std::in_place, fds[0]);
  tcp::Stream listener(fds[1]);
  const tcp::Word key = tcp::random_word();
  caller->encrypt(tcp::Stream::Side::Caller, key);
  listener.encrypt(tcp::Stream::Side::Listener, key);
  for (auto one = tcp::Stream::State::Full, other = one;
       one != tcp::Stream::State::Open || other != tcp::Stream::State::Open;) {
    one = caller->secure();
    other = listener.secure();
    ASSERT_NE(one, tcp::Stream::State::Broken) << caller->problem();
    ASSERT_NE(other, tcp::Stream::State::Broken) << listener.problem();
  }
  caller.reset();  // without finish(), as with a socket that takes no more
  std::byte byte{};
  const iovec piece{&byte, 1};
  EXPECT_EQ(listener.receive(&piece, 1).state, tcp::Stream::State::Closed);
  EXPECT_EQ(listener.problem(), "");
}

struct Admissions final : tcp::Listener::Host {
  void admitted(tcp::Stream stream, const tcp::Answer&) override { streams.push_back(std::move(stream)); }
  std::vector<tcp::Stream> streams;
};
struct NoFrames final : tcp::Outbound::Owner {
  void sent(const tcp::Frame&) override {}
};

/// Of a millisecond, for what the kernel delivers when it likes.
constexpr int kMostWaits = 20'000;

/// A caller and the listener that it calls, with TLS; up to where the caller takes the connection for open,
/// and its last packet is unread.
struct Called {
  Called() {
    while (!caller.is_open() && !caller.has_failed()) {
      caller.advance(now);
      there.poll();
      caller.advance(now);
      if (caller.is_open()) break;
      here.poll();
      listener.progress(now);
    }
    EXPECT_EQ(caller.problem(), "");
  }
  void admit() {
    for (int i = 0; i < kMostWaits && admissions.streams.empty(); ++i) {  // each tells of some events only
      here.poll();
      listener.progress(now);
      if (admissions.streams.empty()) usleep(1000);
    }
  }

  const tcp::Key key{{}, tcp::random_token()};
  const Instant now{};
  tcp::Poller here, there;
  Admissions admissions;
  NoFrames owner;
  tcp::Listener listener{"127.0.0.1", {Rank(0), 2, tcp::Encryption::Tls, key}, here, admissions};
  tcp::Outbound caller{{.self = Rank(1),
                        .peer = Rank(0),
                        .fragment = tcp::Listener::kLargestFragment,
                        .encryption = tcp::Encryption::Tls,
                        .address = tcp::SocketAddress::of("127.0.0.1", listener.port()),
                        .key = key},
                       there,
                       owner};
};

TEST(TcpEncryption, WhatWasTakenOutOfFramesIsStillToBeSent) {
  Called both;
  both.admit();
  ASSERT_THAT(both.admissions.streams, SizeIs(1));
  const std::vector<std::byte> payload(10'000);  // fits a record, and its socket is full one day
  std::size_t given = 0, came = 0;
  do {
    both.there.poll();
    both.caller.add({{}, ConstView(payload.data(), payload.size())});
    given += payload.size() + sizeof(WireHeader);
    both.caller.send();
  } while (both.caller.is_writable());
  EXPECT_FALSE(both.caller.is_drained());
  EXPECT_TRUE(both.caller.has_frames());
  std::vector<std::byte> got(1 << 20);
  for (int idle = 0; came < given && idle < kMostWaits; ++idle) {
    both.there.poll();
    if (both.caller.is_writable() && both.caller.has_frames()) both.caller.send();
    const iovec piece{got.data(), got.size()};
    const std::size_t now = both.admissions.streams[0].receive(&piece, 1).bytes;
    came += now;
    if (now > 0) idle = 0;
    if (now == 0) usleep(1000);
  }
  EXPECT_EQ(came, given);
}

TEST(TcpListener, ShowsNobodyOutWhoHasProvenTheKey) {
  Called both;
  // The caller's last packet is still unread.
  ASSERT_TRUE(both.admissions.streams.empty());
  std::vector<int> crowd;
  for (std::size_t i = 0; i < 2 * tcp::Listener::kSpareGuests; ++i)
    crowd.push_back(call(both.listener.port()));
  while (both.listener.strangers() < tcp::Listener::kSpareGuests / 2) {
    both.listener.ready(EPOLLIN);
    both.listener.progress(both.now);
  }
  both.admit();
  EXPECT_THAT(both.admissions.streams, SizeIs(1));
  for (const int fd : crowd) close(fd);
}

/// A listener that answers only when it is told to, and a rank that calls it.
struct Calling {
  tcp::Outbound::Setting setting() const {
    return {.self = Rank(1),
            .peer = Rank(0),
            .fragment = 1000,
            .address = tcp::SocketAddress::of("127.0.0.1", listener->port()),
            .key = key};
  }
  void answer() {
    here.poll();
    listener->progress(now);
  }
  /// True once it holds.
  bool reaches(const std::function<bool()>& goal) {
    for (int i = 0; i < kMostWaits && !goal(); ++i) usleep(1000);
    return goal();
  }

  const tcp::Key key{{}, tcp::random_token()};
  Instant now{};
  tcp::Poller here, there;
  Admissions admissions;
  NoFrames owner;
  Completions completions;
  task::PollLoop loop;
  std::optional<tcp::Listener> listener{std::in_place, "127.0.0.1",
                                        tcp::Listener::Setting{Rank(0), 2, tcp::Encryption::None, key}, here,
                                        admissions};
};

TEST(TcpCalls, CountNoTimeInWhichNobodyLooked) {
  Calling both;
  tcp::Outbound caller(both.setting(), both.there, both.owner);
  caller.advance(both.now);
  both.now += 2 * tcp::Outbound::kPersistence;
  EXPECT_TRUE(both.reaches([&] {
    if (const auto when = caller.advance(both.now))
      both.now = std::min(*when, both.now + tcp::Outbound::kPause);
    both.there.poll();
    both.answer();
    return caller.is_open() || caller.has_failed();
  }));
  EXPECT_TRUE(caller.is_open()) << caller.problem();
}

TEST(TcpCalls, WaitForAProcessWhoseKernelHasAnswered) {
  for (const bool has_spoken : {false, true}) {
    Calling both;
    tcp::Outbound caller(both.setting(), both.there, both.owner);
    // Connected, and nothing is to be done before something is heard.
    EXPECT_TRUE(both.reaches([&] {
      both.there.poll();
      return !caller.advance(both.now);
    }));
    if (has_spoken) {
      EXPECT_TRUE(both.reaches([&] {
        both.answer();
        return both.listener->has_guests();
      }));
      both.there.poll();
    }
    for (int look = 0; look < 100; ++look) {
      both.now += std::chrono::seconds(1);
      EXPECT_FALSE(caller.advance(both.now));
    }
    EXPECT_TRUE(both.reaches([&] {
      both.answer();
      both.there.poll();
      caller.advance(both.now);
      return caller.is_open() || caller.has_failed();
    }));
    EXPECT_TRUE(caller.is_open()) << caller.problem();
    EXPECT_THAT(both.admissions.streams, SizeIs(1));
    EXPECT_EQ(both.listener->strangers(), 0u);
  }
}

TEST(TcpCalls, OfWhomAllAreTurnedAwayEndAfterHalfAMinute) {
  Calling both;
  const int door = tcp::listen_at("127.0.0.1");
  tcp::Outbound::Setting setting = both.setting();
  setting.address = tcp::SocketAddress::of("127.0.0.1", tcp::port_of(door));
  tcp::Outbound caller(setting, both.there, both.owner);
  EXPECT_TRUE(both.reaches([&] {
    for (int i = 0; i < 400 && !caller.has_failed(); ++i) {
      both.there.poll();
      const auto when = caller.advance(both.now);
      if (when && *when <= both.now + tcp::Outbound::kPause) both.now = *when;
      if (const int fd = accept(door, nullptr, nullptr); fd >= 0) close(fd);
    }
    return caller.has_failed();
  }));
  EXPECT_GE(both.now.time_since_epoch(), tcp::Outbound::kPersistence);
  EXPECT_EQ(caller.problem(), "the connection was closed before anything was said");
  close(door);
}

TEST(TcpCalls, ThatFailBesideAnOpenConnectionAreNoLoss) {
  Calling both;
  tcp::TcpPeer peer({.line = both.setting(), .connections = 2, .executor = &both.loop, .interface = "lo"},
                    both.there, both.completions);
  peer.reach();
  EXPECT_TRUE(both.reaches([&] {
    both.there.poll();
    peer.progress();
    if (both.admissions.streams.empty()) both.answer();
    return peer.path().name == "tcp lo, 2 connections";
  }));
  both.listener.reset();  // the second one is still to be accepted
  EXPECT_TRUE(both.reaches([&] {
    both.there.poll();
    peer.progress();
    return peer.is_idle();
  }));
  EXPECT_FALSE(peer.is_silent());
  EXPECT_FALSE(peer.lost);
}

TEST(TcpCalls, OfALostPeerAreNotLookedAfter) {
  Calling both;
  tcp::TcpPeer peer({.line = both.setting(), .executor = &both.loop}, both.there, both.completions);
  peer.reach();
  EXPECT_TRUE(peer.next_look());
  peer.fail("it is gone");
  EXPECT_FALSE(peer.next_look());
}

TEST(TcpCalls, WithoutDescriptorsBlameNoPeer) {
  Calling both;
  tcp::TcpPeer peer({.line = both.setting(), .executor = &both.loop}, both.there, both.completions);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  peer.reach();
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(peer.lost);
  EXPECT_EQ(test::kind_of(peer.lost), ErrorKind::Resources);
  EXPECT_EQ(test::message_of(peer.lost),
            "no connection to rank 0 can be made: Too many open files: raise ulimit -n");
}

#if TAXON_TEST_UCX

std::uint16_t port_in(const PeerInfo& info) {
  std::uint32_t port = 0;  // behind the lengths of two cards and a magic
  std::memcpy(&port, info.address.data() + 2 * sizeof(std::uint64_t) + sizeof port, sizeof port);
  return static_cast<std::uint16_t>(port);
}

void say(int fd, const void* bytes, std::size_t size) { (void)send(fd, bytes, size, MSG_NOSIGNAL); }

/// Does everything to a listener that somebody can who does not know the job's key.
void harass(std::uint16_t port, std::uint64_t seed) {
  Rng chance(seed, "stranger");
  std::vector<int> open;
  for (int i = 0; i < 400; ++i) {
    const int fd = call(port);
    if (fd < 0) continue;
    std::array<std::byte, 512> junk;
    for (std::byte& byte : junk) byte = static_cast<std::byte>(chance() >> 40);
    switch (chance() % 6) {
      case 0:  // random bytes
        say(fd, junk.data(), chance() % junk.size());
        break;
      case 1: {  // what ended ranks over UCX
        const unsigned char bytes[] = {0x78, 0x56, 0x34, 0x12, 0xbe, 0xba, 0xfe,
                                       0xca, 0,    0xff, 0xff, 0xff, 0xff};
        say(fd, bytes, sizeof bytes);
        break;
      }
      case 2: {  // an answer without the key
        tcp::Answer answer{.nonce = tcp::random_word(), .source = 1, .target = 0, .fragment = 1};
        answer.proof = tcp::random_word();
        const auto bytes = tcp::encode(answer);
        say(fd, bytes.data(), bytes.size());
        break;
      }
      case 3: {  // a frame at once
        WireHeader header;
        seal(header);
        say(fd, &header, sizeof header);
        break;
      }
      case 4:  // half an answer, and no end
        say(fd, "TAXONTCP", 8);
        [[fallthrough]];
      default:
        open.push_back(fd);
        continue;
    }
    close(fd);
  }
  for (const int fd : open) close(fd);
}

Task<void> exchange_for(Transport& net, int rounds) {
  const Rank peer(1 - net.rank().value());
  std::vector<std::byte> given(300'000), got(given.size());
  for (int round = 0; round < rounds; ++round) {
    std::fill(given.begin(), given.end(), static_cast<std::byte>(round));
    RecvOp recv(net, peer, Tag{.round = static_cast<std::uint32_t>(round)}, View(got.data(), got.size()),
                DType::UInt8);
    SendOp send(net, peer, Tag{.round = static_cast<std::uint32_t>(round)},
                ConstView(given.data(), given.size()), DType::UInt8);
    co_await send;
    co_await recv;
    EXPECT_EQ(got, given);
  }
}

/// A connection to rank 1 of 2, by somebody who knows its key and says that it is rank 0.
int admitted_caller(ProcessTransport& net, std::uint32_t fragment) {
  const PeerInfo self = net.self();
  tcp::Token token;
  std::memcpy(token.data(), self.address.data() + 2 * sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t),
              sizeof token);
  const int fd = call(port_in(self));
  const auto hear = [&](auto& packet) {
    for (std::size_t got = 0; got < packet.size();) {
      net.poll();
      const ssize_t part = recv(fd, packet.data() + got, packet.size() - got, MSG_DONTWAIT);
      if (part > 0) got += static_cast<std::size_t>(part);
    }
  };
  std::array<std::byte, tcp::kChallengeBytes> challenge;
  hear(challenge);
  tcp::Answer answer{.nonce = tcp::random_word(), .source = 0, .target = 1, .epoch = 0, .fragment = fragment};
  answer.proof = tcp::Key({}, token).prove(tcp::Key::Role::Caller, *tcp::decode_challenge(challenge), answer);
  const auto bytes = tcp::encode(answer);
  say(fd, bytes.data(), bytes.size());
  std::array<std::byte, tcp::kVerdictBytes> verdict;
  hear(verdict);
  return fd;
}

/// As an executor does, until it would sleep for long.
void run_until_asleep(task::Pollable& net) {
  for (;;) {
    if (net.poll() || !net.arm()) continue;
    pollfd event{net.event_fd(), POLLIN, 0};
    const bool wakes = poll(&event, 1, 50) > 0;
    net.disarm();
    if (!wakes) return;
  }
}

// What has waited on one connection for its turn, and got it from another, is no event.
TEST(TcpSleep, WaitsForNothingThatIsThereWhileASignalIsAwaited) {
  auto codes = run_processes(1, [](Process&) {
    constexpr std::size_t kPart = 1000;
    task::PollLoop loop;
    task::PendingOps waits;
    auto net =
        make_transport(loop, waits, {.rank = Rank(1), .world_size = 2, .host = "h", .transport = "tcp"});
    net->connect({net->self(), net->self()});
    const int callers[] = {admitted_caller(*net, kPart), admitted_caller(*net, kPart)};
    std::vector<std::byte> got(2 * kPart);
    {
      RecvOp receive(*net, Rank(0), Tag{}, View(got.data(), got.size()), DType::UInt8);
      AwaitSignalOp never(*net, Rank(0), Tag{}, 5, 1);
      for (const std::size_t part : {1, 0}) {
        WireHeader header;
        header.type = static_cast<std::uint8_t>(DType::UInt8);
        header.size = got.size();
        header.offset = part * kPart;
        seal(header);
        std::vector<std::byte> frame(sizeof header + kPart);
        std::memcpy(frame.data(), &header, sizeof header);
        say(callers[1 - part], frame.data(), frame.size());
        run_until_asleep(*net);
      }
      EXPECT_TRUE(receive.done());
      waits.cancel(std::make_exception_ptr(Error(ErrorKind::Interrupted, "enough")));
    }
    net.reset();
    for (const int fd : callers) close(fd);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_THAT(codes, Each(0));
}

class TcpStrangers : public testing::TestWithParam<ProcessTransportOptions::Encryption> {};
INSTANTIATE_TEST_SUITE_P(, TcpStrangers,
                         testing::Values(ProcessTransportOptions::Encryption::None,
                                         ProcessTransportOptions::Encryption::Tls),
                         [](const auto& info) {
                           return info.param == ProcessTransportOptions::Encryption::None ? "plain" : "tls";
                         });

TEST_P(TcpStrangers, ChangeNothing) {
  auto codes = run_processes(3, [](Process& process) {
    task::PollLoop loop;
    task::PendingOps waits;
    std::unique_ptr<ProcessTransport> net;
    const bool stranger = process.index() == 2;
    if (!stranger)
      net = make_transport(loop, waits,
                           {.rank = Rank(process.index()),
                            .world_size = 2,
                            .host = "h",
                            .transport = "tcp",
                            .encryption = GetParam()});
    std::vector<PeerInfo> peers;
    for (auto& address : process.exchange(stranger ? std::vector<std::byte>() : net->self().address))
      peers.push_back({address, "h"});
    peers.pop_back();
    if (stranger) {
      harass(port_in(peers[0]), 1);  // before the ranks have met
      process.barrier();
      for (std::uint64_t seed = 2; seed < 6; ++seed) harass(port_in(peers[seed % 2]), seed);
    } else {
      net->connect(peers);
      loop.add(*net);
      process.barrier();
      test::run_transports(loop, {net.get()},
                           [](Transport& to) -> Task<void> { return exchange_for(to, 200); });
      EXPECT_EQ(waits.cancelled(), nullptr);
    }
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(TcpConfirmations, OfWhoeverHasLeftAreNotMissed) {
  constexpr std::uint32_t kMessages = 4;  // together less than a window, each so long that it is confirmed
  constexpr std::size_t kSize = 100 << 10;
  auto codes = run_processes(2, [](Process& process) {
    std::vector<std::vector<std::byte>> bytes(kMessages, std::vector<std::byte>(kSize, std::byte{7}));
    {
      test::ProcessRank rank(process, {.transport = "tcp"});
      rank.run([&](Transport& net) -> Task<void> {
        const Rank peer(1 - net.rank().value());
        SendOp greet(net, peer, Tag{.unit = kMessages}, {}, DType::UInt8);
        RecvOp greeted(net, peer, Tag{.unit = kMessages}, {}, DType::UInt8);
        co_await greet;
        co_await greeted;
        if (net.rank() == Rank(1)) process.barrier();  // rank 0 is gone, and nothing has been read
        for (std::uint32_t i = 0; i < kMessages; ++i)
          if (net.rank() == Rank(0)) {
            SendOp send(net, peer, Tag{.unit = i}, ConstView(bytes[i].data(), kSize), DType::UInt8);
            co_await send;
          } else {
            std::fill(bytes[i].begin(), bytes[i].end(), std::byte{0});
            RecvOp receive(net, peer, Tag{.unit = i}, View(bytes[i].data(), kSize), DType::UInt8);
            co_await receive;
          }
      });
    }
    if (process.index() == 0) process.barrier();
    for (const auto& message : bytes) EXPECT_THAT(message, Each(std::byte{7}));
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_THAT(codes, Each(0));
}

/// Rank 1 calls rank 0, which turns it away; what rank 1 is told.
void expect_refusal(const std::function<ProcessTransportOptions(int rank)>& options,
                    const std::string& words) {
  auto codes = run_processes(2, [&](Process& process) {
    test::ProcessRank rank(process, options(process.index()));
    const auto* tcp = dynamic_cast<RoutedTransport&>(rank.transport()).tcp();
    std::string message;
    try {
      rank.run([&](Transport& to) -> Task<void> {
        if (to.rank() == Rank(1)) {
          SendOp send(to, Rank(0), Tag{}, {}, DType::UInt8);
          co_await send;
        }
        while (to.rank() == Rank(0) && tcp->strangers() == 0) {
          task::SleepUntil pause(to.executor(), to.pending(),
                                 to.executor().now() + std::chrono::milliseconds(1));
          co_await pause;
        }
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr(process.index() == 1 ? words : ""));
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(TcpSecret, AnotherOneIsRefused) {
  expect_refusal(
      [](int rank) {
        return ProcessTransportOptions{.transport = "tcp", .secret = {static_cast<unsigned char>(rank)}};
      },
      "has another secret");
}

TEST(TcpEncryption, OfOneRankAloneIsRefused) {
  for (const int alone : {0, 1})
    expect_refusal(
        [&](int rank) {
          return ProcessTransportOptions{.transport = "tcp",
                                         .encryption = rank == alone
                                                           ? ProcessTransportOptions::Encryption::Tls
                                                           : ProcessTransportOptions::Encryption::None};
        },
        "one of the two ranks encrypts");
}

TEST(TcpEncryption, IsRefusedWhereItCannotBe) {
  task::PollLoop loop;
  task::PendingOps waits;
  EXPECT_THROW(
      make_transport(loop, waits,
                     {.transport = "ucx-tcp", .encryption = ProcessTransportOptions::Encryption::Tls}),
      Error);
}

/// Every rank puts a row of numbers into every other's region and raises a signal there; and sends it a
/// message.
Task<void> meet_everybody(Transport& net) {
  const auto n = static_cast<std::size_t>(net.world_size());
  constexpr std::size_t kRow = 100'000;
  Region region = net.allocate(n * kRow);
  // Regions are known by their owner's message.
  const std::vector<std::byte> own = region.share().pack();
  std::vector<std::vector<std::byte>> theirs(n);
  for (std::size_t r = 0; r < n; ++r) {
    const Rank peer(static_cast<std::int32_t>(r));
    if (peer == net.rank()) continue;
    std::uint64_t size = own.size(), size_there = 0;
    SendOp send_size(net, peer, Tag{.unit = 1}, as_view(std::span(&size, 1)), DType::Int64);
    SendOp send(net, peer, Tag{.unit = 2}, ConstView(own.data(), own.size()), DType::UInt8);
    RecvOp recv_size(net, peer, Tag{.unit = 1}, as_view(std::span(&size_there, 1)), DType::Int64);
    co_await send_size;
    co_await send;
    co_await recv_size;
    theirs[r].resize(size_there);
    RecvOp recv(net, peer, Tag{.unit = 2}, View(theirs[r].data(), theirs[r].size()), DType::UInt8);
    co_await recv;
  }
  const auto me = static_cast<std::size_t>(net.rank().value());
  const std::vector<std::byte> row(kRow, static_cast<std::byte>(me + 1));
  for (std::size_t r = 0; r < n; ++r) {
    if (r == me) continue;
    const RemoteRegion there = RemoteRegion::unpack(ConstView(theirs[r].data(), theirs[r].size()));
    EXPECT_EQ(net.map(there).empty(), !net.path(there.owner).shared_memory);
    PutOp put(net, ConstView(row.data(), row.size()), &there, me * kRow,
              {there.owner, static_cast<std::uint32_t>(me)}, 1);
    co_await put;
  }
  for (std::size_t r = 0; r < n; ++r) {
    if (r == me) continue;
    AwaitSignalOp raised(net, Rank(static_cast<std::int32_t>(r)), Tag{}, static_cast<std::uint32_t>(r), 1);
    co_await raised;
    const std::byte* begin = region.bytes().data() + r * kRow;
    EXPECT_TRUE(
        std::all_of(begin, begin + kRow, [&](std::byte b) { return b == static_cast<std::byte>(r + 1); }));
  }
  // Nobody's region goes before all have read theirs.
  for (std::size_t r = 0; r < n; ++r) {
    if (r == me) continue;
    const Rank peer(static_cast<std::int32_t>(r));
    RecvOp recv(net, peer, Tag{.unit = 3}, {}, DType::UInt8);
    SendOp send(net, peer, Tag{.unit = 3}, {}, DType::UInt8);
    co_await send;
    co_await recv;
  }
}

/// Ranks 0 and 1 on one host, 2 and 3 on another, as far as they know.
int run_on_two_hosts(Process& process, ProcessTransportOptions options) {
  task::PollLoop loop;
  task::PendingOps waits;
  const auto host_of = [](std::size_t rank) { return rank < 2 ? std::string("a") : std::string("b"); };
  options.address = "10.9.0.1";
  auto net = test::connect_on_hosts(process, loop, waits, options, host_of);
  loop.add(*net);
  process.barrier();
  test::run_transports(loop, {net.get()}, meet_everybody);
  for (std::size_t r = 0; r < 4; ++r) {
    if (static_cast<int>(r) == process.index()) continue;
    const Path path = net->path(Rank(static_cast<std::int32_t>(r)));
    EXPECT_EQ(path.shared_memory, host_of(r) == host_of(static_cast<std::size_t>(process.index())));
    EXPECT_THAT(path.name, HasSubstr(path.shared_memory ? "shared memory" : "tcp one"));
    const bool encrypts = options.encryption == ProcessTransportOptions::Encryption::Tls;
    EXPECT_EQ(path.name.find("TLS") != std::string::npos, encrypts && !path.shared_memory);
  }
  EXPECT_THAT(test::listening_addresses(), testing::ElementsAre("10.9.0.1"));
  process.barrier();
  loop.remove(*net);
  return 0;
}

TEST(TcpAndSharedMemory, CarryOneJobTogether) {
  constexpr int kNotAllowed = 77;
  for (const auto encryption :
       {ProcessTransportOptions::Encryption::None, ProcessTransportOptions::Encryption::Tls})
    for (const char* transport : {"auto", "posix"}) {
      auto codes = run_processes(1, [&](Process&) {
        if (!test::enter_network_of_its_own()) return kNotAllowed;
        auto inside = run_processes(4, [&](Process& process) {
          return run_on_two_hosts(process, {.transport = transport, .encryption = encryption});
        });
        EXPECT_THAT(inside, Each(0));
        return 0;
      });
      if (codes == std::vector<int>{kNotAllowed}) GTEST_SKIP() << "no network namespaces here";
      EXPECT_THAT(codes, Each(0));
    }
}

// What a listener has no descriptors for waits, and the job goes on.
TEST(TcpStrangersTest, MayTakeAllDescriptors) {
  auto codes = run_processes(3, [](Process& process) {
    const bool stranger = process.index() == 2;
    task::PollLoop loop;
    task::PendingOps waits;
    std::unique_ptr<ProcessTransport> net;
    if (!stranger)
      net = make_transport(loop, waits,
                           {.rank = Rank(process.index()), .world_size = 2, .host = "h", .transport = "tcp"});
    std::vector<PeerInfo> peers;
    for (auto& address : process.exchange(stranger ? std::vector<std::byte>() : net->self().address))
      peers.push_back({address, "h"});
    peers.pop_back();
    std::vector<int> open;
    if (!stranger) {
      net->connect(peers);
      loop.add(*net);
      test::run_transports(loop, {net.get()},
                           [](Transport& to) -> Task<void> { return exchange_for(to, 1); });
      const rlimit few{40, 40};
      setrlimit(RLIMIT_NOFILE, &few);
    }
    process.barrier();
    if (stranger)
      for (int i = 0; i < 100; ++i) open.push_back(call(port_in(peers[0])));
    process.barrier();
    if (!stranger)
      test::run_transports(loop, {net.get()},
                           [](Transport& to) -> Task<void> { return exchange_for(to, 50); });
    process.barrier();
    for (const int fd : open) close(fd);
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

#endif

}  // namespace
}  // namespace taxon::net
