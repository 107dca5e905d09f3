// Windows against links that are arithmetic.
#include "net/wire/send_window.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "net/instants.h"
#include "net/wire/arrivals.h"

namespace taxon::net {
namespace {

constexpr std::size_t kFragment = 60 << 10;
using std::chrono::milliseconds;

TEST(SendWindow, AsksForConfirmationsAndHoldsBackWhenItIsFull) {
  SendWindow window;
  const std::size_t eighth = SendWindow::kFirst / 8;
  for (int part = 0; part < 8; ++part) {
    ASSERT_TRUE(window.admits(eighth)) << part;
    EXPECT_FALSE(window.send(1, at({})));
    EXPECT_TRUE(window.send(eighth - 1, at({})));
  }
  EXPECT_FALSE(window.admits(1));
  EXPECT_TRUE(window.confirm(at(milliseconds(1)), {}));
  EXPECT_TRUE(window.admits(eighth));
  EXPECT_EQ(window.on_the_way(), 7 * eighth);
}

TEST(SendWindow, KnowsWhatItDidNotAskFor) {
  SendWindow window;
  EXPECT_FALSE(window.confirm(at({}), {}));
  EXPECT_FALSE(window.send(1, at({})));
  EXPECT_FALSE(window.confirm(at({}), {}));
}

TEST(SendWindow, HoldsNothingBackUnlessAConfirmationIsOnItsWay) {
  Rng rng(7, "window");
  for (int run = 0; run < 50; ++run) {
    SendWindow window;
    Duration now{};
    std::size_t asked = 0;
    for (int i = 0; i < 2000; ++i) {
      now += std::chrono::microseconds(rng.below(20000));
      const std::size_t bytes = 1 + rng.below(kFragment);
      if (rng.below(3) > 0 && window.admits(bytes)) {
        asked += window.send(bytes, at(now));
      } else if (asked > 0) {
        window.hold();
        ASSERT_TRUE(window.confirm(at(now), {now - milliseconds(rng.below(40)), double(rng.below(2)) * 1e5}));
        --asked;
      }
      ASSERT_TRUE(asked > 0 || window.admits(kFragment)) << run << " " << i;
    }
  }
}

/// Senders that always have something, one link to their receiver, confirmations that take a while.
struct Link {
  double rate;              // bytes per second
  Duration there, back;     // without a queue
  Duration receivers_zero;  // of its clock
};

struct Outcome {
  std::vector<double> rates;  // by sender
  double queue = 0;           // bytes in it, mean
};

/// From `now` on, of the second half of `length`; one window for each sender.
Outcome saturate(Link link, std::vector<SendWindow>& windows, Duration length, Duration now = {}) {
  Arrivals arrivals(static_cast<int>(windows.size()));
  struct Event {
    int sender;
    bool arrives, asked;
    SendWindow::Confirmation confirmation;
  };
  std::multimap<Duration, Event> events;
  std::vector<double> bytes(windows.size());
  const Duration middle = now + length / 2, end = now + length;
  Duration free = now;
  double queued = 0;
  int samples = 0;
  auto send = [&](int sender) {
    SendWindow& window = windows[static_cast<std::size_t>(sender)];
    while (window.admits(kFragment)) {
      free = std::max(free, now) + from_seconds(static_cast<double>(kFragment) / link.rate);
      const bool asked = window.send(kFragment, at(now));
      events.insert({free + link.there, {sender, true, asked, {}}});
    }
    window.hold();
  };
  for (int sender = 0; sender < static_cast<int>(windows.size()); ++sender) send(sender);
  while (!events.empty() && now < end) {
    const Event event = events.begin()->second;
    now = events.begin()->first;
    events.erase(events.begin());
    if (event.arrives) {
      arrivals.count(Rank(event.sender), kFragment);
      if (now > middle) {
        bytes[static_cast<std::size_t>(event.sender)] += kFragment;
        queued += to_seconds(std::max(Duration{}, free - now)) * link.rate;
        ++samples;
      }
      if (event.asked)
        events.insert({now + link.back,
                       {event.sender, false, false, {now + link.receivers_zero, arrivals.share(at(now))}}});
    } else {
      EXPECT_TRUE(windows[static_cast<std::size_t>(event.sender)].confirm(at(now), event.confirmation));
      send(event.sender);
    }
  }
  Outcome outcome;
  for (double sent : bytes) outcome.rates.push_back(sent / to_seconds(length / 2));
  outcome.queue = queued / std::max(1, samples);
  return outcome;
}

Outcome saturate_alone(Link link, Duration length) {
  std::vector<SendWindow> one(1);
  return saturate(link, one, length);
}

TEST(SendWindow, FillsALinkAndLeavesItsQueueShort) {
  for (const double rate : {12.5e6, 125e6, 1250e6}) {
    const Outcome outcome = saturate_alone({rate, milliseconds(1), milliseconds(1), {}}, milliseconds(4000));
    EXPECT_GT(outcome.rates[0], 0.97 * rate);
    EXPECT_LT(outcome.queue, 2.0 * (SendWindow::kLeast + rate * to_seconds(SendWindow::kQueue))) << rate;
  }
}

TEST(SendWindow, FillsALongWay) {
  const Outcome outcome = saturate_alone({125e6, milliseconds(50), milliseconds(50), {}}, milliseconds(8000));
  EXPECT_GT(outcome.rates[0], 0.9 * 125e6);
}

TEST(SendWindow, DoesNotTakeLateConfirmationsForAQueue) {
  const Outcome outcome =
      saturate_alone({12.5e6, milliseconds(1), milliseconds(300), {}}, milliseconds(8000));
  EXPECT_GT(outcome.rates[0], 0.95 * 12.5e6);
}

TEST(SendWindow, NeedsNoCommonClock) {
  for (const Duration zero : {std::chrono::duration_cast<Duration>(std::chrono::hours(-3)),
                              std::chrono::duration_cast<Duration>(std::chrono::hours(3))}) {
    const Outcome outcome =
        saturate_alone({12.5e6, milliseconds(1), milliseconds(1), zero}, milliseconds(4000));
    EXPECT_GT(outcome.rates[0], 0.97 * 12.5e6);
    EXPECT_LT(outcome.queue, 600e3);
  }
}

TEST(SendWindow, SharesALinkEquallyWhateverSendersBeganWith) {
  std::vector<SendWindow> windows(1);
  saturate({125e6, milliseconds(1), milliseconds(1), {}}, windows, milliseconds(1000));
  ASSERT_GT(windows[0].size(), 2 * SendWindow::kFirst);
  while (windows[0].confirm(at(milliseconds(1000)), {milliseconds(999), 0})) {
  }
  const std::size_t senders = 4;
  windows.resize(senders);
  const Outcome outcome = saturate({12.5e6, milliseconds(1), milliseconds(1), {}}, windows,
                                   milliseconds(40000), milliseconds(1100));
  double sum = 0;
  for (const double rate : outcome.rates) {
    EXPECT_NEAR(rate, 12.5e6 / senders, 0.1 * 12.5e6 / senders);
    sum += rate;
  }
  EXPECT_GT(sum, 0.97 * 12.5e6);
  EXPECT_LT(outcome.queue, 2e6);  // TCP would have all of their sockets in it
}

}  // namespace
}  // namespace taxon::net
