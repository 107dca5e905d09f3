#include "launch/agent_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"
#include "launch/agent_lies.h"

namespace taxon::launch {
namespace {

TEST(LaunchMessages, ThatLieAreRefused) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "a launcher that lies");
    EXPECT_NO_THROW(lie_in_launch_lines([&](std::uint64_t bound) { return rng.below(bound); }));
  }
}

TEST(LaunchMessages, OfMoreRanksThanAnIntHoldsAreRefusedAsNotUnderstood) {
  nlohmann::json job = to_json(AgentJob{.folder = "/", .plan = "p", .slots = 1, .world_size = 2});
  EXPECT_EQ(job_from(job).world_size, 2);
  for (const char* key : {"first_rank", "slots", "world_size", "node"}) {
    nlohmann::json wrong = job;
    for (const std::int64_t count : {std::int64_t{2147483647}, std::int64_t{1} << 32, std::int64_t{-1}}) {
      wrong[key] = count;
      try {
        job_from(wrong);
        ADD_FAILURE() << key << " of " << count;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Rendezvous);
        EXPECT_THAT(error.what(), testing::HasSubstr("don't understand each other"));
      }
    }
  }
}

}  // namespace
}  // namespace taxon::launch
