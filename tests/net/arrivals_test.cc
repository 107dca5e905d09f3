#include "net/wire/arrivals.h"

#include <gtest/gtest.h>

#include "net/instants.h"

namespace taxon::net {
namespace {

using std::chrono::milliseconds;

TEST(Arrivals, AreSharedByThoseWhoSendAtOneTime) {
  Arrivals arrivals(4);
  arrivals.count(Rank(1), 300000);
  arrivals.count(Rank(2), 500000);
  arrivals.count(Rank(3), 1000);  // not to speak of
  EXPECT_DOUBLE_EQ(arrivals.share(at(milliseconds(100))), 400000 / 0.1);
}

TEST(Arrivals, OfOneSenderAreNotShared) {
  Arrivals arrivals(2);
  arrivals.count(Rank(1), 300000);
  EXPECT_EQ(arrivals.share(at(milliseconds(100))), 0);
}

TEST(Arrivals, SayNothingOfALinkThatPaused) {
  Arrivals arrivals(3);
  arrivals.count(Rank(1), 300000);
  arrivals.count(Rank(2), 300000);
  EXPECT_EQ(arrivals.share(at(milliseconds(250))), 0);
  arrivals.count(Rank(1), 300000);
  arrivals.count(Rank(2), 300000);
  EXPECT_DOUBLE_EQ(arrivals.share(at(milliseconds(350))), 300000 / 0.1);
}

}  // namespace
}  // namespace taxon::net
