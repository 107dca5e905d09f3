#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "optim/schedule.h"
#include "plan/legality.h"

namespace taxon::optim {
namespace {

struct StepOptions {
  std::vector<std::int64_t> step_samples;
  double step_factor = 0.1;
};
template <plan::Like<StepOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "step_samples",
                    .sentence = "After each of these the rate is multiplied by step_factor.",
                    .min = 1},
        o.step_samples);
  visit(plan::Field{.key = "step_factor", .sentence = "See step_samples.", .min = 0, .above_min = true},
        o.step_factor);
}

constexpr plan::PlanRule kRules[] = {
    {"learning_rate.step_samples", "must be given for schedule step, in ascending order",
     [](const plan::LegalityInput& c) {
       const auto samples = c.plan.learning_rate.options.read<StepOptions>().step_samples;
       const bool ascends =
           std::adjacent_find(samples.begin(), samples.end(), std::greater_equal<>()) == samples.end();
       return plan::unless(!samples.empty() && ascends, fmt::format("it is [{}]", fmt::join(samples, ", ")));
     }}};

}  // namespace

ScheduleRow step() {
  return {.name = "step",
          .make = [](const plan::RatePlan& plan, double) -> std::function<double(double)> {
            return [options = plan.options.read<StepOptions>()](double samples) {
              double factor = 1;
              for (std::int64_t boundary : options.step_samples)
                if (samples >= static_cast<double>(boundary)) factor *= options.step_factor;
              return factor;
            };
          },
          .sentence = "falls by a factor after each of some numbers of samples",
          .options = plan::option_keys<StepOptions>,
          .rules = kRules};
}

}  // namespace taxon::optim
