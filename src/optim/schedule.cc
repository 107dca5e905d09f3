#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "optim/rule.h"

namespace taxon::optim {
namespace {

/// A schedule as the factor of the base rate after `samples` of `total`, warm-up aside.
struct ScheduleRow {
  const char* name;
  double (*factor)(const plan::RatePlan&, double samples, double total);
};

double constant(const plan::RatePlan&, double, double) { return 1; }

double step(const plan::RatePlan& plan, double samples, double) {
  double factor = 1;
  for (std::int64_t boundary : plan.step_samples)
    if (samples >= static_cast<double>(boundary)) factor *= plan.step_factor;
  return factor;
}

// Loshchilov and Hutter, "SGDR", arXiv 1608.03983, without restarts; it begins when the warm-up ends.
double cosine(const plan::RatePlan& plan, double samples, double total) {
  auto warmup = static_cast<double>(plan.warmup_samples);
  double progress = total > warmup ? std::clamp((samples - warmup) / (total - warmup), 0.0, 1.0) : 1;
  return plan.final_fraction + (1 - plan.final_fraction) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

constexpr ScheduleRow kSchedules[] = {{"constant", constant}, {"step", step}, {"cosine", cosine}};

}  // namespace

double learning_rate(const plan::RatePlan& plan, std::int64_t samples, std::int64_t total) {
  if (samples < plan.warmup_samples)
    return plan.base * static_cast<double>(samples) / static_cast<double>(plan.warmup_samples);
  for (const ScheduleRow& row : kSchedules)
    if (row.name == plan.schedule)
      return plan.base * row.factor(plan, static_cast<double>(samples), static_cast<double>(total));
  throw Error(ErrorKind::Usage, "learning_rate.schedule: no schedule is called " + plan.schedule);
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleRow& row : kSchedules) names.emplace_back(row.name);
  return names;
}

}  // namespace taxon::optim
