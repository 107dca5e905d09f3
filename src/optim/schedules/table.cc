#include "base/error.h"
#include "base/table_row.h"
#include "optim/schedule.h"

namespace taxon::optim {

std::span<const ScheduleRow> schedule_table() {
  static const ScheduleRow kSchedules[] = {
      TAXON_ROW(ScheduleRow, constant),
      TAXON_ROW(ScheduleRow, step),
      TAXON_ROW(ScheduleRow, cosine),
  };
  return kSchedules;
}

std::vector<plan::Catalogue::Schedule> known_schedules(std::span<const ScheduleRow> own) {
  std::vector<plan::Catalogue::Schedule> known;
  for (std::span<const ScheduleRow> rows : {own, schedule_table()})
    for (const ScheduleRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .sentence = std::string(row.sentence),
                       .knows_the_end = row.knows_the_end,
                       .options = row.options ? row.options() : std::vector<plan::OptionKey>(),
                       .rules = row.rules});
  return known;
}

LearningRate::LearningRate(const plan::RatePlan& plan, std::int64_t total, std::span<const ScheduleRow> own)
    : base_(plan.base), warmup_(plan.warmup_samples) {
  for (std::span<const ScheduleRow> rows : {own, schedule_table()})
    for (const ScheduleRow& row : rows)
      if (!factor_ && row.name == plan.schedule) factor_ = row.make(plan, static_cast<double>(total));
  if (!factor_)
    throw Error(ErrorKind::Usage, "learning_rate.schedule: no schedule is called " + plan.schedule);
}

double LearningRate::at(std::int64_t samples) const {
  if (samples < warmup_) return base_ * static_cast<double>(samples) / static_cast<double>(warmup_);
  return base_ * factor_(static_cast<double>(samples));
}

}  // namespace taxon::optim
