#pragma once

#include "train/observer.h"

/// Who follows a run: its steps, tests, checkpoints and end.
namespace taxon {

using train::Evaluation;
using train::Observer;
using train::Outcome;
using train::RunInfo;
using train::StepReport;

}  // namespace taxon
