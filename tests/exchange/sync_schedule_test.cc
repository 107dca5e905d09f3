#include "exchange/sync_schedule.h"

#include <gtest/gtest.h>

namespace taxon::exchange {
namespace {

TEST(SyncSchedule, CountsTheMeetingsBefore) {
  for (const int fragments : {1, 2, 3})
    for (const std::int64_t warmup : {0, 1, 6, 7}) {
      const SyncSchedule schedule({.period = 6, .warmup_steps = warmup, .fragments = fragments});
      for (int fragment = 0; fragment < fragments; ++fragment) {
        std::int64_t met = 0;
        for (std::int64_t step = 0; step < 40; ++step) {
          EXPECT_EQ(schedule.meetings_before(fragment, step), met)
              << fragments << " " << warmup << " " << step;
          met += schedule.meets(fragment, step) ? 1 : 0;
        }
      }
    }
}

}  // namespace
}  // namespace taxon::exchange
