// Messages that are almost right, or nothing at all, from a rank that knows the secret: rank 0 and the other
// ranks go on or name the liar, and nothing aborts, grows without bound or waits for ever. Deterministic.
#include <gtest/gtest.h>

#include "base/failure.h"
#include "base/rng.h"
#include "control/hub.h"
#include "control/job.h"
#include "control/participant.h"
#include "control/wire.h"

namespace taxon::control {
namespace {

using nlohmann::json;

constexpr int kWorld = 3, kLiar = 2;
constexpr int kRounds = 1500;

std::string text_of(const Message& message) {
  return message.head.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// A value that some reader may not expect.
json strange_value(Rng& rng) {
  static const json kValues = json::parse(
      R"([null, true, false, 0, 1, 2, 3, -1, 7, 2147483647, 2147483648, -2147483649, 9223372036854775807,
          -9223372036854775808, 18446744073709551615, 1e308, -1e308, 0.5, 1.5, -0.0, "", "abort", "ping",
          [], {}, [0, 1, 2], [-1], [1e300], [[[[[[[[1]]]]]]]], {"rank": 1}, {"event": "lost"}])");
  const std::size_t pick = rng.below(kValues.size() + 2);
  if (pick == kValues.size()) return std::string(rng.below(70'000), 'x');
  if (pick == kValues.size() + 1) return json(std::vector<int>(rng.below(3'000), 0));
  return kValues[pick];
}

/// Changes one value somewhere within.
void mutate(json& value, Rng& rng) {
  if ((value.is_object() || value.is_array()) && !value.empty() && rng.below(4) != 0) {
    auto at = value.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(rng.below(value.size())));
    if (rng.below(6) == 0)
      value.erase(at);
    else
      mutate(*at, rng);
    return;
  }
  value = strange_value(rng);
}

std::vector<std::byte> random_bytes(Rng& rng, std::size_t most) {
  std::vector<std::byte> bytes(rng.below(most));
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.below(256));
  return bytes;
}

/// A frame of one of `messages`: as it is, with changed values, another body, changed bytes; or only noise.
std::vector<std::byte> frame(const std::vector<Message>& messages, Rng& rng) {
  if (rng.below(12) == 0) return random_bytes(rng, 200);
  Message message = messages[rng.below(messages.size())];
  for (std::size_t changes = rng.below(3); changes > 0; --changes) mutate(message.head, rng);
  if (rng.below(5) == 0) message.body = random_bytes(rng, 300);
  if (!message.head.is_object()) message.head = {{"type", message.head}};
  std::vector<std::byte> bytes = *encode(message);
  for (std::size_t flips = rng.below(8) == 0 ? rng.below(4) : 0; flips > 0; --flips)
    bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
  return bytes;
}

/// Both ends of a connection: one of Taxon's, and the bare one of a test.
struct Ends {
  Ends() {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    taxon = Fd(pair[0]);
    bare = Fd(pair[1]);
  }
  Fd taxon, bare;
};

/// What came, as far as it is whole; false once the other side has closed.
bool read_messages(const Fd& fd, std::vector<std::byte>& buffer, std::vector<Message>& messages) {
  std::array<std::byte, 65536> chunk;
  ssize_t n = 0;
  while ((n = recv(fd.get(), chunk.data(), chunk.size(), 0)) > 0)
    buffer.insert(buffer.end(), chunk.begin(), chunk.begin() + n);
  while (auto decoded = decode(buffer)) {
    buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(decoded->used));
    messages.push_back(std::move(decoded->message));
  }
  return n < 0;
}

/// Nobody's yet.
class NoOwner final : public Connection::Owner {
  void received(Connection&) override {}
  void closed(Connection&, const std::string&) override {}
};

/// Rank 0's hub with three bare ranks.
struct HubScene {
  explicit HubScene(std::uint64_t epoch) : options(quick(0, kWorld, 1)), hub(options, poller, epoch) {
    for (int rank = 0; rank < kWorld; ++rank) {
      Ends ends;
      Message hello{{{"type", "hello"},
                     {"rank", rank},
                     {"world", kWorld},
                     {"version", "1"},
                     {"plan", "p"},
                     {"host", "h"},
                     {"pid", 100 + rank}},
                    {}};
      static_cast<Door::Host&>(hub).arrived(
          std::make_unique<Connection>(poller, std::move(ends.taxon), nobody), hello, "10.0.0.1");
      bare.push_back(std::move(ends.bare));
    }
  }
  void say(int rank, std::span<const std::byte> bytes) {
    [[maybe_unused]] auto n =
        ::send(bare[static_cast<std::size_t>(rank)].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void pump() {
    for (int i = 0; i < 4; ++i) poller.wait(std::chrono::milliseconds(0));
    hub.tick(Clock::now());
  }
  JoinOptions options;
  NoOwner nobody;
  Poller poller;
  Hub hub;
  std::vector<Fd> bare;
};

std::vector<Message> reports() {
  return {
      {{{"type", "pong"}, {"now", 12345}, {"again", true}}, {}},
      {{{"type", "exchange"}, {"what", "addresses"}}, std::vector<std::byte>(40)},
      {{{"type", "waits"},
        {"waits", {{{"operation", "all_reduce"}, {"subject", "bucket 1"}, {"seconds", 9.5}, {"peer", 1}}}}},
       {}},
      {{{"type", "stop"}}, {}},
      {{{"type", "abort"}, {"kind", "data"}, {"message", "cut short"}}, {}},
      {{{"type", "goodbye"}}, {}}};
}

TEST(ControlFuzz, RankZeroOutlivesARankThatLiesAndBlamesNobodyElse) {
  const std::vector<Message> corpus = reports();
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "a rank that lies");
    HubScene scene(seed);
    for (std::size_t i = 1 + rng.below(6); i > 0; --i) {
      scene.say(kLiar, frame(corpus, rng));
      scene.pump();
    }
    std::vector<std::byte> buffer;
    std::vector<Message> heard;
    ASSERT_TRUE(read_messages(scene.bare[1], buffer, heard)) << "rank 1 was cut off";
    ASSERT_FALSE(heard.empty());
    EXPECT_EQ(heard.front().head.at("type"), "welcome");
    for (const Message& message : heard) {
      if (message.head.at("type") != "event") continue;
      const Event event = event_from_json(message.head.at("event"), kWorld);
      if (!is_fatal(event)) continue;
      EXPECT_EQ(error_of(event).context().rank, Rank(kLiar)) << text_of(message);
    }
    // It still listens to the others.
    scene.say(1, *encode(Message{{{"type", "goodbye"}}, {}}));
    scene.pump();
    heard.clear();
    ASSERT_TRUE(read_messages(scene.bare[1], buffer, heard));
    EXPECT_TRUE(std::any_of(heard.begin(), heard.end(),
                            [](const Message& m) { return m.head.at("type") == "farewell"; }));
  }
}

TEST(ControlFuzz, AFirstMessageThatLiesIsTurnedAwayOrEndsTheJoin) {
  const std::vector<Message> corpus = {{{{"type", "hello"},
                                         {"rank", 1},
                                         {"world", kWorld},
                                         {"version", "1"},
                                         {"plan", "p"},
                                         {"host", "h"},
                                         {"pid", 5}},
                                        {}}};
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "a hello that lies");
    JoinOptions options = quick(0, kWorld, 1);
    NoOwner nobody;
    Poller poller;
    Hub hub(options, poller, seed);
    std::vector<Fd> bare;
    for (int i = 0; i < 4; ++i) {
      std::optional<Decoded> hello;
      try {
        hello = decode(frame(corpus, rng));
      } catch (const ProtocolError&) {
      }
      if (!hello) continue;
      Ends ends;
      static_cast<Door::Host&>(hub).arrived(
          std::make_unique<Connection>(poller, std::move(ends.taxon), nobody), std::move(hello->message),
          "10.0.0.1");
      bare.push_back(std::move(ends.bare));
      poller.wait(std::chrono::milliseconds(0));
      hub.tick(Clock::now());
    }
  }
}

/// Takes what a participant says of its job.
class Told final : public Participant::Host {
 public:
  void joined(Participant::Membership membership) override {
    EXPECT_EQ(membership.members.size(), static_cast<std::size_t>(kWorld));
  }
  void join_failed(const Error& error) override { over = error.what(); }
  void happened(const Event& event) override {
    if (is_fatal(event)) over = describe(event);
  }
  void exchanged(std::vector<std::vector<std::byte>> parts) override {
    EXPECT_EQ(parts.size(), static_cast<std::size_t>(kWorld));
  }
  void clock_measured(std::int64_t) override {}
  void ended() override {}
  std::string over;
};

std::vector<Message> announcements() {
  json members = json::array();
  for (int rank = 0; rank < kWorld; ++rank)
    members.push_back({{"host", "h"}, {"pid", 5}, {"address", "10.0.0.1"}});
  std::vector<Message> all{
      {{{"type", "welcome"}, {"epoch", 77U}, {"members", members}, {"sizes", {1, 2, 3}}},
       std::vector<std::byte>(6)},
      {{{"type", "waiting"}, {"missing", {1, 2}}}, {}},
      {{{"type", "refused"}, {"kind", "peer-lost"}, {"message", "rank 1 was lost"}, {"rank", 1}}, {}},
      {{{"type", "ping"}, {"now", 1}, {"echo", 2}, {"seen", 3}}, {}},
      {{{"type", "result"}, {"number", 0}, {"sizes", {1, 0, 1}}}, std::vector<std::byte>(2)},
      {{{"type", "farewell"}}, {}}};
  for (const Event& event : std::initializer_list<Event>{
           PeerLost{Rank(1), "gone"}, Departed{Rank(1), "gone"}, Aborted{Rank(1), ErrorKind::Data, "x"},
           Silent{Rank(1), 5.5}, Returned{Rank(1), 9}, DeadlinePassed{Rank(1), 600}, StopRequested{Rank(0)},
           HangReport{{"a", "b"}, {Rank(1)}}})
    all.push_back({{{"type", "event"}, {"event", to_json(event)}}, {}});
  return all;
}

TEST(ControlFuzz, ARankOutlivesARankZeroThatLies) {
  const std::vector<Message> corpus = announcements();
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "a rank 0 that lies");
    JoinOptions options = quick(1, kWorld, 1);
    Poller poller;
    Told told;
    Participant participant(options, poller, told);
    Ends ends;
    participant.join_own(std::move(ends.taxon));
    // Half of them get as far as a job that runs.
    std::vector<std::byte> bytes;
    if (rng.below(2) == 0) {
      for (std::size_t i : {0, 3, 3, 3, 3, 3, 3, 3, 3}) {
        auto right = encode(corpus[i]);
        bytes.insert(bytes.end(), right->begin(), right->end());
      }
    }
    for (std::size_t i = 1 + rng.below(6); i > 0; --i) {
      auto wrong = frame(corpus, rng);
      bytes.insert(bytes.end(), wrong.begin(), wrong.end());
    }
    [[maybe_unused]] auto n = ::send(ends.bare.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    for (int i = 0; i < 4; ++i) poller.wait(std::chrono::milliseconds(0));
    if (rng.below(3) == 0) participant.exchange("x", {});
    participant.tick(Clock::now());
    std::vector<std::byte> buffer;
    std::vector<Message> heard;
    const bool is_open = read_messages(ends.bare, buffer, heard);
    EXPECT_TRUE(is_open || !told.over.empty()) << "cut off without a word";
  }
}

}  // namespace
}  // namespace taxon::control
