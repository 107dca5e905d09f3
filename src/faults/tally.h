#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "faults/trial.h"

namespace taxon::faults {

/// How trials ended.
struct EndingCounts {
  std::uint64_t trials = 0;
  std::uint64_t findings = 0;  // trials with at least one
  std::uint64_t resumed = 0;
  std::map<Ending, std::uint64_t> endings;
  void add(const Trial& trial);
};

/// Of all trials of a search, and of those with one thing in common.
struct Tally {
  EndingCounts all;
  std::uint64_t messages = 0;  // delivered
  double seconds = 0;          // of virtual time
  /// By what shapes are made of: a number of ranks, a layout, a key of the plan with its value.
  std::map<std::string, EndingCounts> by_setting;
  void add(const Trial& trial);
};

/// by_setting as a table in Markdown, one line per setting, in the order of the settings' names.
std::string table_of(const Tally& tally);

}  // namespace taxon::faults
