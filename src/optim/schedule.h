#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "plan/catalogue.h"

namespace taxon::optim {

/// A schedule of the learning rate, described.
struct ScheduleRow {
  std::string_view name;
  /// The factor of the base rate after `samples` of a run of `total`, once the warm-up is over.
  std::function<double(double samples)> (*make)(const plan::RatePlan& plan, double total);
  std::string_view sentence = {};
  bool knows_the_end = false;  // a run of another length has other rates from the beginning
  std::vector<plan::OptionKey> (*options)() = nullptr;  // keys of its own beside those of `learning_rate`
  std::span<const plan::PlanRule> rules = {};           // what makes no sense with it
};
/// One file each in optim/schedules.
std::span<const ScheduleRow> schedule_table();
/// For plan::check_plan().
std::vector<plan::Catalogue::Schedule> known_schedules(std::span<const ScheduleRow> own = {});

/// The learning rate of a run: linear warm-up to the base, then the schedule.
class LearningRate {
 public:
  /// `total`: samples of the whole run; `own`: rows beside those of the table, found before them. Throws
  /// Error{Usage} for a schedule that nothing has.
  LearningRate(const plan::RatePlan& plan, std::int64_t total, std::span<const ScheduleRow> own = {});
  /// After so many samples of the whole job.
  double at(std::int64_t samples) const;

 private:
  double base_;
  std::int64_t warmup_;
  std::function<double(double)> factor_;
};

}  // namespace taxon::optim
