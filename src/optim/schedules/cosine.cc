#include <algorithm>
#include <cmath>
#include <numbers>

#include "optim/schedule.h"

namespace taxon::optim {
namespace {

struct CosineOptions {
  double final_fraction = 0;
};
template <plan::Like<CosineOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{
          .key = "final_fraction", .sentence = "The rate ends at base times this.", .min = 0, .max = 1},
      o.final_fraction);
}

}  // namespace

/// Loshchilov and Hutter, "SGDR", arXiv 1608.03983, without restarts.
ScheduleRow cosine() {
  return {.name = "cosine",
          .make = [](const plan::RatePlan& plan, double total) -> std::function<double(double)> {
            const auto warmup = static_cast<double>(plan.warmup_samples);
            return [last = plan.options.read<CosineOptions>().final_fraction, warmup, total](double samples) {
              const double progress =
                  total > warmup ? std::clamp((samples - warmup) / (total - warmup), 0.0, 1.0) : 1;
              return last + (1 - last) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
            };
          },
          .sentence = "falls along half a cosine, from the end of the warm-up to that of the run",
          .knows_the_end = true,
          .options = plan::option_keys<CosineOptions>};
}

}  // namespace taxon::optim
