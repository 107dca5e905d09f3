#include "plan/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace taxon::plan {
namespace {

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("tpc", "tcp"), 1);
}

TEST(Nearest, SaysNothingWhenNothingIsNear) {
  std::vector<std::string> names = {"ring", "tree", "direct"};
  EXPECT_EQ(nearest("rng", names), "ring");
  EXPECT_EQ(nearest("ring", names), "ring");
  EXPECT_EQ(nearest("butterfly", names), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
}

TEST(Nearest, FindsKeysOfOtherSections) {
  std::vector<std::string> keys = {"length.epochs", "length", "evaluation.every_epochs"};
  EXPECT_EQ(nearest_key("epochs", keys), "length.epochs");
  EXPECT_EQ(nearest_key("lenght.epochs", keys), "length.epochs");
  EXPECT_EQ(nearest_key("lenght", keys), "length");
  EXPECT_EQ(nearest_key("zzz", keys), std::nullopt);
}

}  // namespace
}  // namespace taxon::plan
