#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace taxon::app {

/// The words of `taxon simulate RECIPE --faults`.
struct FaultArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string seeds = "1..1000";
  std::string table;                    // a file for the endings by setting of the shapes; empty: none
  std::optional<std::uint64_t> replay;  // this seed alone, with all that is known of it
};

/// Tries fault schedules on training in the virtual world. Findings and the summary go to stdout, progress to
/// stderr. Returns the process's exit code: 0 without findings; after a signal what was done is summed up.
int run_faults(const FaultArguments& arguments);

}  // namespace taxon::app
