#pragma once

#include <string>
#include <vector>

#include "faults/schedule.h"
#include "faults/simulated_run.h"

namespace taxon::faults {

/// How a run ended.
enum class Ending {
  Complete,  // every rank returned
  Survived,  // a rank was killed before all had ended, and every other one returned
  Lost,      // a rank was killed before all had ended; the others named it
  Stuck,     // it could not go on, and said who waits for whom
};
const char* to_string(Ending ending);

Ending ending_of(const SimulatedRun& run);

/// What a discipline promises about weights.
enum class Promise {
  OneModel,     // every worker has the same after every step, whatever happens to time
  OwnModels,    // workers have different ones, and each its own whatever happens to time
  InTheirOrder  // who is faster changes them; all end with one
};
Promise promise_of(const plan::Plan& plan);

/// Everything that must not be, one sentence each; empty: all is well. `calm` is the run of the same plan
/// without faults: where the plan promises it, what a schedule does to time must not change a bit.
std::vector<std::string> check(const plan::Plan& plan, const FaultSchedule& schedule,
                               const SimulatedRun& calm, const SimulatedRun& seen);
/// The same of a run without faults.
std::vector<std::string> check_calm(const plan::Plan& plan, const SimulatedRun& calm);
/// The same of a run that began from what a disturbed one had left, with nothing going wrong.
std::vector<std::string> check_resumed(const plan::Plan& plan, const SimulatedRun& calm,
                                       const SimulatedRun& resumed);
/// Two runs of one seed are one run.
std::vector<std::string> check_repeated(const SimulatedRun& first, const SimulatedRun& second);

/// What the rank's failure says; empty if there is none.
std::string message_of(const std::exception_ptr& error);

}  // namespace taxon::faults
