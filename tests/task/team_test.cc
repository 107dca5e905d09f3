#include "task/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace taxon::task {
namespace {

TEST(Team, DoesEveryPartOnce) {
  for (int parts : {1, 2, 3, 40}) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(parts));
    by_team(parts, [&](int part) { ++done[static_cast<std::size_t>(part)]; });
    for (const auto& times : done) EXPECT_EQ(times, 1) << parts;
  }
}

TEST(Team, WhatItsThreadsWroteIsThereAfterwards) {
  std::vector<int> values(1000, 0);
  for (int round = 1; round <= 50; ++round) {
    by_team(4, [&](int part) {
      for (std::size_t i = static_cast<std::size_t>(part); i < values.size(); i += 4) values[i] += 1;
    });
    for (int value : values) ASSERT_EQ(value, round);
  }
}

TEST(Team, APartsErrorComesWhenAllHaveEnded) {
  std::atomic<int> ended{0};
  EXPECT_THROW(by_team(3,
                       [&](int part) {
                         ++ended;
                         if (part == 1) throw std::runtime_error("planted");
                       }),
               std::runtime_error);
  EXPECT_EQ(ended, 3);
}

}  // namespace
}  // namespace taxon::task
