#include "parallel/stages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "base/error.h"
#include "base/rng.h"

namespace taxon::parallel {
namespace {

using ::testing::HasSubstr;

std::vector<SegmentCost> random_chain(Rng& rng, int count) {
  std::vector<SegmentCost> chain;
  for (int i = 0; i < count; ++i)
    chain.push_back({.name = fmt::format("s{}", i),
                     .compute = static_cast<double>(rng.below(20)),
                     .weight_bytes = static_cast<double>(rng.below(10)),
                     .state_bytes = static_cast<double>(rng.below(10)),
                     .activation_bytes = static_cast<double>(rng.below(10)),
                     .output_bytes = static_cast<double>(rng.below(30))});
  return chain;
}

/// The least time of the slowest stage over every cut that fits; infinity: none does.
double brute_force(const std::vector<SegmentCost>& chain, const CutOptions& options) {
  double best = std::numeric_limits<double>::infinity();
  const int count = static_cast<int>(chain.size());
  std::function<void(int, int, double)> go = [&](int stage, int first, double worst) {
    for (int last = first; last < count; ++last) {
      if ((stage == options.stages - 1) != (last == count - 1)) continue;
      const StageUse use = stage_use(chain, options, stage, first, last);
      if (options.memory > 0 && use.bytes > options.memory) continue;
      const double slowest = std::max(worst, use.seconds);
      if (stage == options.stages - 1)
        best = std::min(best, slowest);
      else
        go(stage + 1, last + 1, slowest);
    }
  };
  go(0, 0, 0);
  return best;
}

TEST(Stages, AreTheBestOfAllCuts) {
  int refused = 0, cut = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Rng rng(seed, "stages");
    const int count = 2 + static_cast<int>(rng.below(8));
    const auto chain = random_chain(rng, count);
    CutOptions options{.stages = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(count)))};
    if (rng.below(2)) options.bandwidth = 1 + static_cast<double>(rng.below(4));
    if (rng.below(2)) options.memory = 20 + static_cast<double>(rng.below(120));
    if (rng.below(2)) options.transfers = CutOptions::Transfers::Between;
    for (int stage = 0; stage < options.stages; ++stage) {
      options.held.push_back(options.stages - stage);
      options.versions.push_back(1 + static_cast<int>(rng.below(2)));
    }
    const double best = brute_force(chain, options);
    double found = std::numeric_limits<double>::infinity();
    try {
      const auto stages = cut_stages(chain, options);
      ++cut;
      ASSERT_EQ(static_cast<int>(stages.size()), options.stages);
      found = 0;
      int next = 0;
      for (const StageUse& stage : stages) {
        ASSERT_EQ(stage.first, next);
        next = stage.last + 1;
        found = std::max(found, stage.seconds);
        if (options.memory > 0) {
          EXPECT_LE(stage.bytes, options.memory);
        }
      }
      ASSERT_EQ(next, count);
    } catch (const Error&) {
      ++refused;
    }
    EXPECT_DOUBLE_EQ(found, best) << "seed " << seed;
  }
  EXPECT_GT(refused, 20);  // both kinds were tried
  EXPECT_GT(cut, 200);
}

TEST(Stages, CutWhereLittleTravels) {
  std::vector<SegmentCost> chain;
  for (int i = 0; i < 4; ++i)
    chain.push_back({.name = "s", .compute = 1, .output_bytes = i == 2 ? 1.0 : 100.0});
  const auto stages = cut_stages(chain, {.stages = 2, .bandwidth = 1});
  EXPECT_EQ(stages[0].last, 2);
  EXPECT_DOUBLE_EQ(stages[0].seconds, 3);
}

std::string refusal(const std::vector<SegmentCost>& chain, const CutOptions& options) {
  try {
    cut_stages(chain, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return "cut";
}

TEST(Stages, RefusalsHaveTheNumbers) {
  const std::vector<SegmentCost> chain(3, {.name = "fc", .weight_bytes = 3 << 20});
  EXPECT_THAT(refusal(chain, {.stages = 4}), HasSubstr("3 segments cannot be cut into 4 stages"));
  EXPECT_THAT(refusal(chain, {.stages = 2, .memory = 2 << 20}),
              HasSubstr("segment fc alone needs 3.0 MiB of the 2.0 MiB that a worker has"));
  EXPECT_THAT(refusal(chain, {.stages = 2, .memory = 4 << 20}),
              HasSubstr("no cut into 2 stages fits: the segments need at least 9.0 MiB"));
}

}  // namespace
}  // namespace taxon::parallel
