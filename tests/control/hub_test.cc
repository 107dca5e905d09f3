// Rank 0's half, with ranks that are bare sockets.
#include "control/hub.h"

#include <gmock/gmock.h>

#include <array>

#include "control/quick.h"
#include "control/wire.h"

namespace taxon::control {
namespace {

using testing::HasSubstr;

struct Nobody final : Connection::Owner {
  void received(Connection&) override {}
  void closed(Connection&, const std::string&) override {}
};

TEST(HubTest, ASparedRankWhoseHostVanishesDeparts) {
  JoinOptions options = quick(0, 2, 1);
  options.timeouts.silence = 5 * options.timeouts.heartbeat;
  options.timeouts.peer = 10 * options.timeouts.heartbeat;
  Nobody nobody;
  Poller poller;
  Hub hub(options, poller, 7);
  std::vector<Fd> bare;
  for (int rank = 0; rank < 2; ++rank) {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    bare.emplace_back(pair[1]);
    static_cast<Acceptor::Host&>(hub).arrived(std::make_unique<Connection>(poller, Fd(pair[0]), nobody),
                                              {{{"type", "hello"},
                                                {"rank", rank},
                                                {"world", 2},
                                                {"version", "1"},
                                                {"plan", "p"},
                                                {"host", "h"},
                                                {"pid", 5}},
                                               {}},
                                              "10.0.0.1");
  }
  hub.set_expendable({Rank(1)});
  const auto now = Clock::now();
  for (int beat = 0; beat < 20; ++beat) hub.tick(now + beat * options.timeouts.heartbeat);

  std::array<std::byte, 65536> chunk;
  const ssize_t size = recv(bare[0].get(), chunk.data(), chunk.size(), 0);
  ASSERT_GT(size, 0);
  std::vector<std::byte> rest(chunk.begin(), chunk.begin() + size);
  std::vector<std::string> events;
  while (auto decoded = decode(rest)) {
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(decoded->used));
    if (decoded->message.head.at("type") != "event") continue;
    const Event event = event_from_json(decoded->message.head.at("event"), 2);
    EXPECT_FALSE(is_fatal(event)) << describe(event);
    events.push_back(describe(event));
  }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_THAT(events[0], HasSubstr("rank 1 has been silent for"));
  EXPECT_THAT(events[1], HasSubstr("it has been silent for"));
}

}  // namespace
}  // namespace taxon::control
