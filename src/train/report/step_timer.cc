#include "train/report/step_timer.h"

#include <utility>

namespace taxon::train {

void StepTimer::end_step(const Stepper::Done& done, StepReport& report) {
  report.data_wait = data_wait_;
  report.compute = done.busy;
  report.exposed = done.idle + std::exchange(met_, Duration(0));
  report.end = now();
  report.step_time = report.end - std::exchange(step_begin_, report.end);
  trained_ += report.step_time;
}

}  // namespace taxon::train
