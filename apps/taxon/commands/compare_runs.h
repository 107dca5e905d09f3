#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "apps/taxon/commands/compare.h"
#include "base/problems.h"
#include "plan/plan.h"
#include "report/run_reading.h"

namespace taxon::app {

/// One run of a comparison: a recipe with a seed, in a folder of its own.
struct ComparedRun {
  std::string recipe;
  std::vector<std::string> overrides;  // what the comparison sets, then what the user does
  plan::Plan plan;                     // with them
  std::string folder;
  bool kept = false;  // complete from an earlier time
};

/// What is to be run, in order, for `taxon train`'s workers. What is wrong with recipes, options and folders
/// is added to `problems`.
std::vector<ComparedRun> plan_runs(const CompareArguments& arguments, Problems& problems);

/// A name for people: the recipe's, and the seed if there are several.
std::string title_of(const ComparedRun& run, const CompareArguments& arguments);

/// Trains it with local workers; their output goes to log.txt in the folder. `stopped`: a stop signal came
/// before there were any; `on_stop`: one came then, even if the run ended well. Returns as run_workers().
/// Throws Error where it can't be started.
int train(const ComparedRun& run, const CompareArguments& arguments, const std::atomic<bool>& stopped,
          std::function<void()> on_stop);

/// Why a run failed, from its log: what the worker at fault said last.
std::string reason(const ComparedRun& run, int code);

/// What a complete run left.
struct RunRecord {
  report::FinishedRun finished;  // with its curve
  plan::Plan plan;               // resolved
  std::vector<std::vector<report::TraceSpan>> trace;
};
RunRecord read_record(const ComparedRun& run);

}  // namespace taxon::app
