#include "control/lies.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "control/client.h"
#include "control/hub.h"
#include "control/quick.h"
#include "control/wire.h"
#include "support/strange_json.h"

namespace taxon::control {
namespace {

using nlohmann::json;
using test::mutate;

constexpr int kWorld = 3, kLiar = 2;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

std::string text_of(const Message& message) {
  return message.head.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<std::byte> random_bytes(const Draw& draw, std::size_t most) {
  std::vector<std::byte> bytes(draw(most));
  for (std::byte& b : bytes) b = static_cast<std::byte>(draw(256));
  return bytes;
}

/// A frame of one of `messages`: as it is, with changed values, another body, changed bytes; or a head of any
/// text; or only noise.
std::vector<std::byte> frame(const std::vector<Message>& messages, const Draw& draw) {
  const std::uint64_t kind = draw(12);
  if (kind == 0) return random_bytes(draw, 200);
  if (kind == 1) {
    std::vector<std::byte> bytes(kFrameHeader), head = random_bytes(draw, 256);
    bytes[0] = static_cast<std::byte>(head.size());
    bytes.insert(bytes.end(), head.begin(), head.end());
    return bytes;
  }
  Message message = messages[draw(messages.size())];
  for (std::size_t changes = draw(3); changes > 0; --changes) mutate(message.head, draw);
  if (draw(5) == 0) message.body = random_bytes(draw, 300);
  if (!message.head.is_object()) message.head = {{"type", message.head}};
  std::vector<std::byte> bytes = *encode(message);
  for (std::size_t flips = draw(8) == 0 ? draw(4) : 0; flips > 0; --flips)
    bytes[draw(bytes.size())] = static_cast<std::byte>(draw(256));
  return bytes;
}

/// Both ends of a connection: one of Taxon's, and the bare one of a test.
struct Ends {
  Ends() {
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
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

json hello_of(int rank) {
  return {{"type", "hello"}, {"rank", rank}, {"world", kWorld}, {"version", "1"},
          {"plan", "p"},     {"host", "h"},  {"pid", 5}};
}

/// Rank 0's hub with three bare ranks.
struct HubScene {
  explicit HubScene(std::uint64_t epoch) : options(quick(0, kWorld, 1)), hub(options, poller, epoch) {
    for (int rank = 0; rank < kWorld; ++rank) {
      Ends ends;
      static_cast<Acceptor::Host&>(hub).arrived(
          std::make_unique<Connection>(poller, std::move(ends.taxon), nobody), {hello_of(rank), {}},
          "10.0.0.1");
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

/// Takes what a participant says of its job.
class Told final : public Client::Host {
 public:
  void joined(Client::Membership membership) override {
    require(membership.members.size() == kWorld, "a job of another size");
  }
  void join_failed(const Error& error) override { over = error.what(); }
  void happened(const Event& event) override {
    if (is_fatal(event)) over = describe(event);
  }
  void exchanged(std::vector<std::vector<std::byte>> parts) override {
    require(parts.size() == kWorld, "parts of another number of ranks");
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

}  // namespace

void lie_to_rank_zero(const Draw& draw) {
  static const std::vector<Message> corpus = reports();
  HubScene scene(draw(1000));
  for (std::size_t i = 1 + draw(6); i > 0; --i) {
    scene.say(kLiar, frame(corpus, draw));
    scene.pump();
  }
  std::vector<std::byte> buffer;
  std::vector<Message> heard;
  require(read_messages(scene.bare[1], buffer, heard), "rank 1 was cut off");
  require(!heard.empty() && heard.front().head.at("type") == "welcome", "rank 1 was not welcomed");
  for (const Message& message : heard) {
    if (message.head.at("type") != "event") continue;
    const Event event = event_from_json(message.head.at("event"), kWorld);
    require(!is_fatal(event) || error_of(event).context().rank == Rank(kLiar),
            "another is blamed: " + text_of(message));
  }
  // It still listens to the others.
  scene.say(1, *encode(Message{{{"type", "goodbye"}}, {}}));
  scene.pump();
  heard.clear();
  require(read_messages(scene.bare[1], buffer, heard), "rank 1 was cut off at its end");
  require(std::any_of(heard.begin(), heard.end(),
                      [](const Message& m) { return m.head.at("type") == "farewell"; }),
          "rank 1 got no farewell");
}

void lie_in_first_messages(const Draw& draw) {
  static const std::vector<Message> corpus = {{hello_of(1), {}}};
  const JoinOptions options = quick(0, kWorld, 1);
  NoOwner nobody;
  Poller poller;
  Hub hub(options, poller, draw(1000));
  std::vector<Fd> bare;
  for (int i = 0; i < 4; ++i) {
    std::optional<Decoded> hello;
    try {
      hello = decode(frame(corpus, draw));
    } catch (const ProtocolError&) {
    }
    if (!hello) continue;
    Ends ends;
    static_cast<Acceptor::Host&>(hub).arrived(
        std::make_unique<Connection>(poller, std::move(ends.taxon), nobody), std::move(hello->message),
        "10.0.0.1");
    bare.push_back(std::move(ends.bare));
    poller.wait(std::chrono::milliseconds(0));
    hub.tick(Clock::now());
  }
}

void lie_as_rank_zero(const Draw& draw) {
  static const std::vector<Message> corpus = announcements();
  const JoinOptions options = quick(1, kWorld, 1);
  Poller poller;
  Told told;
  Client client(options, poller, told);
  Ends ends;
  client.join_own(std::move(ends.taxon));
  // Half of them get as far as a job that runs.
  std::vector<std::byte> bytes;
  if (draw(2) == 0) {
    for (std::size_t i : {0, 3, 3, 3, 3, 3, 3, 3, 3}) {
      auto right = encode(corpus[i]);
      bytes.insert(bytes.end(), right->begin(), right->end());
    }
  }
  for (std::size_t i = 1 + draw(6); i > 0; --i) {
    auto wrong = frame(corpus, draw);
    bytes.insert(bytes.end(), wrong.begin(), wrong.end());
  }
  [[maybe_unused]] auto n = ::send(ends.bare.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  for (int i = 0; i < 4; ++i) poller.wait(std::chrono::milliseconds(0));
  if (draw(3) == 0) client.exchange("x", {});
  client.tick(Clock::now());
  std::vector<std::byte> buffer;
  std::vector<Message> heard;
  const bool is_open = read_messages(ends.bare, buffer, heard);
  require(is_open || !told.over.empty(), "cut off without a word");
}

}  // namespace taxon::control
