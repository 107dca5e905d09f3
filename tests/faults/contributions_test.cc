#include "faults/contributions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace taxon::test {
namespace {

using exchange::Act;
using exchange::Acts;
using faults::Bookkeeping;
using faults::Dropping;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Act::Kind;

/// Two workers hand in one contribution after the other, and each makes an update.
Acts asynchronous() {
  return {{Kind::Admit, 0, 0, 0}, {Kind::Update, 0, 0, 0}, {Kind::Apply, 0, 0, 0}, {Kind::Answer, 0, 0, 1},
          {Kind::Admit, 0, 1, 0}, {Kind::Update, 0, 0, 1}, {Kind::Apply, 0, 1, 0}, {Kind::Answer, 0, 1, 2},
          {Kind::Admit, 0, 0, 1}, {Kind::Update, 0, 0, 2}, {Kind::Apply, 0, 0, 1}, {Kind::Answer, 0, 0, 3}};
}
constexpr Bookkeeping kAsynchronous{.workers = 2, .staleness = -1, .complete = true};

TEST(Contributions, ThatAreAppliedOnceAreWell) {
  EXPECT_THAT(check_contributions(3, asynchronous(), kAsynchronous), IsEmpty());
  EXPECT_THAT(faults::count_contributions(asynchronous(), 2), ElementsAre(ElementsAre(2, 1)));
}

TEST(Contributions, ThatAreAppliedTwiceAreFound) {
  Acts acts = asynchronous();
  acts.push_back({Kind::Update, 0, 0, 3});
  acts.push_back({Kind::Apply, 0, 0, 1});
  EXPECT_THAT(
      check_contributions(3, acts, kAsynchronous),
      ElementsAre("rank 3 as the owner of bucket 0 applied contribution 2 of worker 0, which was applied "
                  "or dropped before"));
}

TEST(Contributions, ThatComeTwiceAreFound) {
  Acts acts = asynchronous();
  acts.push_back({Kind::Admit, 0, 1, 0});
  EXPECT_THAT(check_contributions(3, acts, kAsynchronous),
              ElementsAre(HasSubstr("took contribution 1 of worker 1 as its 2th")));
}

TEST(Contributions, ThatAreLostAreFound) {
  Acts acts = asynchronous();
  acts.push_back({Kind::Admit, 0, 1, 1});
  EXPECT_THAT(check_contributions(3, acts, kAsynchronous),
              ElementsAre(HasSubstr("never applied contribution 2 of worker 1")));
  acts.back() = {Kind::Drop, 0, 1, 1};
  EXPECT_THAT(check_contributions(3, acts, kAsynchronous),
              ElementsAre(HasSubstr("dropped contribution 2 of worker 1")));
  Bookkeeping quorum = kAsynchronous;
  quorum.dropping = Dropping::Allowed;
  EXPECT_THAT(check_contributions(3, acts, quorum), IsEmpty());
  acts.push_back({Kind::Apply, 0, 1, 1});
  EXPECT_THAT(check_contributions(3, acts, quorum), ElementsAre(HasSubstr("applied or dropped before")));
}

TEST(Contributions, OfAWorkerTooFarAheadAreFound) {
  Bookkeeping bounded = kAsynchronous;
  bounded.staleness = 1;
  Acts acts = asynchronous();
  EXPECT_THAT(check_contributions(3, acts, bounded), IsEmpty());
  acts.push_back({Kind::Admit, 0, 0, 2});
  acts.push_back({Kind::Update, 0, 0, 3});
  acts.push_back({Kind::Apply, 0, 0, 2});
  EXPECT_THAT(check_contributions(3, acts, bounded), IsEmpty());
  acts.push_back({Kind::Admit, 0, 0, 3});
  EXPECT_THAT(check_contributions(3, acts, bounded),
              ElementsAre(HasSubstr("let worker 0 go 2 contributions ahead of worker 1")));
}

TEST(Contributions, OfAWorkerTooFarAheadOfOneThatComesBackAreFound) {
  constexpr Bookkeeping bounded{.workers = 2, .staleness = 0};
  Acts acts{{Kind::Pause, 0, 1, 0}, {Kind::Admit, 0, 0, 0}, {Kind::Apply, 0, 0, 0}, {Kind::Admit, 0, 0, 1}};
  EXPECT_THAT(check_contributions(3, acts, bounded), IsEmpty());  // the pause is one worker's
  acts.insert(acts.begin(), {Kind::Pause, 0, 0, 0});
  EXPECT_THAT(check_contributions(3, acts, bounded),
              ElementsAre(HasSubstr("let worker 0 go 1 contributions ahead of worker 1")));
}

TEST(Contributions, OfOneStepMakeOneUpdate) {
  Bookkeeping together = kAsynchronous;
  together.staleness = 0;
  together.all_at_once = true;
  Acts acts = {{Kind::Admit, 0, 0, 0},
               {Kind::Admit, 0, 1, 0},
               {Kind::Update, 0, 0, 0},
               {Kind::Apply, 0, 0, 0},
               {Kind::Apply, 0, 1, 0}};
  EXPECT_THAT(check_contributions(3, acts, together), IsEmpty());
  acts.insert(acts.begin() + 4, {Kind::Update, 0, 0, 1});
  EXPECT_THAT(check_contributions(3, acts, together),
              ElementsAre(HasSubstr("made an update of 1 contributions")));
}

}  // namespace
}  // namespace taxon::test
