#include "optim/schedule.h"

namespace taxon::optim {

ScheduleRow constant() {
  return {.name = "constant",
          .make = [](const plan::RatePlan&, double) -> std::function<double(double)> {
            return [](double) { return 1.0; };
          },
          .sentence = "the rate stays"};
}

}  // namespace taxon::optim
