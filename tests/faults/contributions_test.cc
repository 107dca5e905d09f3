#include "faults/contributions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace taxon::test {
namespace {

using exchange::AsyncEvent;
using exchange::AsyncEvents;
using faults::Dropping;
using faults::ServerOracle;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = AsyncEvent::Kind;

/// Two workers hand in one contribution after the other, and each makes an update.
AsyncEvents asynchronous() {
  return {{Kind::Admit, 0, 0, 0}, {Kind::Update, 0, 0, 0}, {Kind::Apply, 0, 0, 0}, {Kind::Answer, 0, 0, 1},
          {Kind::Admit, 0, 1, 0}, {Kind::Update, 0, 0, 1}, {Kind::Apply, 0, 1, 0}, {Kind::Answer, 0, 1, 2},
          {Kind::Admit, 0, 0, 1}, {Kind::Update, 0, 0, 2}, {Kind::Apply, 0, 0, 1}, {Kind::Answer, 0, 0, 3}};
}
constexpr ServerOracle kAsynchronous{.workers = 2, .staleness = -1, .complete = true};

TEST(Contributions, ThatAreAppliedOnceAreWell) {
  EXPECT_THAT(check_contributions(3, asynchronous(), kAsynchronous), IsEmpty());
  EXPECT_THAT(faults::count_contributions(asynchronous(), 2), ElementsAre(ElementsAre(2, 1)));
}

TEST(Contributions, ThatAreAppliedTwiceAreFound) {
  AsyncEvents events = asynchronous();
  events.push_back({Kind::Update, 0, 0, 3});
  events.push_back({Kind::Apply, 0, 0, 1});
  EXPECT_THAT(
      check_contributions(3, events, kAsynchronous),
      ElementsAre("rank 3 as the owner of bucket 0 applied contribution 2 of worker 0, which was applied "
                  "or dropped before"));
}

TEST(Contributions, ThatComeTwiceAreFound) {
  AsyncEvents events = asynchronous();
  events.push_back({Kind::Admit, 0, 1, 0});
  EXPECT_THAT(check_contributions(3, events, kAsynchronous),
              ElementsAre(HasSubstr("took contribution 1 of worker 1 as its 2th")));
}

TEST(Contributions, ThatAreLostAreFound) {
  AsyncEvents events = asynchronous();
  events.push_back({Kind::Admit, 0, 1, 1});
  EXPECT_THAT(check_contributions(3, events, kAsynchronous),
              ElementsAre(HasSubstr("never applied contribution 2 of worker 1")));
  events.back() = {Kind::Drop, 0, 1, 1};
  EXPECT_THAT(check_contributions(3, events, kAsynchronous),
              ElementsAre(HasSubstr("dropped contribution 2 of worker 1")));
  ServerOracle quorum = kAsynchronous;
  quorum.dropping = Dropping::Allowed;
  EXPECT_THAT(check_contributions(3, events, quorum), IsEmpty());
  events.push_back({Kind::Apply, 0, 1, 1});
  EXPECT_THAT(check_contributions(3, events, quorum), ElementsAre(HasSubstr("applied or dropped before")));
}

TEST(Contributions, OfAWorkerTooFarAheadAreFound) {
  ServerOracle bounded = kAsynchronous;
  bounded.staleness = 1;
  AsyncEvents events = asynchronous();
  EXPECT_THAT(check_contributions(3, events, bounded), IsEmpty());
  events.push_back({Kind::Admit, 0, 0, 2});
  events.push_back({Kind::Update, 0, 0, 3});
  events.push_back({Kind::Apply, 0, 0, 2});
  EXPECT_THAT(check_contributions(3, events, bounded), IsEmpty());
  events.push_back({Kind::Admit, 0, 0, 3});
  EXPECT_THAT(check_contributions(3, events, bounded),
              ElementsAre(HasSubstr("let worker 0 go 2 contributions ahead of worker 1")));
}

TEST(Contributions, OfAWorkerTooFarAheadOfOneThatComesBackAreFound) {
  constexpr ServerOracle bounded{.workers = 2, .staleness = 0};
  AsyncEvents events{
      {Kind::Pause, 0, 1, 0}, {Kind::Admit, 0, 0, 0}, {Kind::Apply, 0, 0, 0}, {Kind::Admit, 0, 0, 1}};
  EXPECT_THAT(check_contributions(3, events, bounded), IsEmpty());  // the pause is one worker's
  events.insert(events.begin(), {Kind::Pause, 0, 0, 0});
  EXPECT_THAT(check_contributions(3, events, bounded),
              ElementsAre(HasSubstr("let worker 0 go 1 contributions ahead of worker 1")));
}

TEST(Contributions, OfOneStepMakeOneUpdate) {
  ServerOracle together = kAsynchronous;
  together.staleness = 0;
  together.all_at_once = true;
  AsyncEvents events = {{Kind::Admit, 0, 0, 0},
                        {Kind::Admit, 0, 1, 0},
                        {Kind::Update, 0, 0, 0},
                        {Kind::Apply, 0, 0, 0},
                        {Kind::Apply, 0, 1, 0}};
  EXPECT_THAT(check_contributions(3, events, together), IsEmpty());
  events.insert(events.begin() + 4, {Kind::Update, 0, 0, 1});
  EXPECT_THAT(check_contributions(3, events, together),
              ElementsAre(HasSubstr("made an update of 1 contributions")));
}

}  // namespace
}  // namespace taxon::test
