// The consistency of examples/dynamic_ssp.h: a program's own, on made-up times.
#include "dynamic_ssp.h"

#include <gtest/gtest.h>

#include "exchange/server/consistency_controller.h"

namespace taxon::exchange {
namespace {

ConsistencyController controller(int workers, std::int64_t lower, std::int64_t upper) {
  plan::LevelPlan level;
  level.options = {{"lower", lower}, {"upper", upper}};
  return {workers, dynamic_ssp().make(level, {.workers = workers})};
}

Instant second(int s) { return Instant(from_seconds(s)); }

/// Worker 0 needs a second for a step and the others `slow` of them; each begins its next step when it may.
/// Where worker 0 was, step by step, when it had to wait: how far ahead of the slowest.
std::vector<std::int64_t> waits_of(ConsistencyController clocks, int workers, int slow, int seconds) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(workers)), waits;
  std::vector<int> ready(static_cast<std::size_t>(workers), slow);  // when it hands in next; 0: it waits
  ready[0] = 1;
  for (int now = 1; now <= seconds; ++now) {
    for (int w = workers - 1; w >= 0; --w) {
      const auto at = static_cast<std::size_t>(w);
      if (ready[at] != now) continue;
      EXPECT_EQ(clocks.arrive(w, steps[at]++, clocks.version(), second(now)),
                ConsistencyController::Arrival::Pooled);
      while (clocks.full()) clocks.take();
      ready[at] = 0;
      if (w == 0 && !clocks.may_go(0)) waits.push_back(clocks.clock(0) - clocks.common());
    }
    for (int w = 0; w < workers; ++w)
      if (auto& next = ready[static_cast<std::size_t>(w)]; next == 0 && clocks.may_go(w))
        next = now + (w == 0 ? 1 : slow);
  }
  return waits;
}

/// Before anybody's time is known it stops like SSP of the lower bound; then where the slowest is about to
/// hand in.
TEST(DynamicSsp, StopsWhereTheSlowestIsAboutToHandIn) {
  const std::vector<std::int64_t> waits = waits_of(controller(2, 1, 4), 2, 3, 60);
  ASSERT_GE(waits.size(), 5u);
  EXPECT_EQ(waits[0], 2);
  for (std::int64_t ahead : waits) {
    EXPECT_GT(ahead, 1);
    EXPECT_LE(ahead, 5) << "one more than it may lead by when it goes on";
  }
  EXPECT_GT(*std::max_element(waits.begin() + 2, waits.end()), 2) << "nothing was granted";
}

TEST(DynamicSsp, IsSspWhereBothBoundsAreEqual) {
  for (std::int64_t ahead : waits_of(controller(3, 2, 2), 3, 4, 60)) EXPECT_EQ(ahead, 3);
}

TEST(DynamicSsp, WaitsLessOftenThanSspOfTheLowerBound) {
  EXPECT_LT(waits_of(controller(2, 1, 6), 2, 4, 200).size(), waits_of(controller(2, 1, 1), 2, 4, 200).size());
}

TEST(DynamicSsp, SaysWhatWorkersMayLeadByAndWhatItAllows) {
  ConsistencyController clocks = controller(2, 1, 4);
  EXPECT_TRUE(clocks.describe().ends_with("common 0, may lead by 1 1")) << clocks.describe();
  plan::LevelPlan level;
  level.options = {{"lower", 5}, {"upper", 4}};
  const plan::ConsistencyBounds bounds = dynamic_ssp().bounds(level);
  EXPECT_EQ(bounds.scheduling(), plan::Scheduling::Bounded);
  EXPECT_TRUE(bounds.answers_what_it_took());
}

}  // namespace
}  // namespace taxon::exchange
