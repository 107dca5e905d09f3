#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/named.h"
#include "control/event.h"
#include "task/wait.h"

namespace taxon::control {

/// A task::WaitInfo as it travels: how long instead of since when, because clocks differ.
struct ReportedWait {
  std::string operation;
  std::optional<Rank> peer;
  std::string subject;
  double seconds = 0;
};

/// As they travel.
std::vector<ReportedWait> reported(const std::vector<task::WaitInfo>& waits, Instant now);

/// What is known when the question is asked.
struct WaitPicture {
  int world_size = 0;
  std::map<Rank, std::vector<ReportedWait>>
      waits;                      // by rank, oldest first; absent: nothing is waited for long
  std::map<Rank, double> silent;  // seconds
  std::set<Rank> left;            // said goodbye
  double threshold = 8;           // shorter waits are normal, in seconds
};

/// Who waits for whom, and who holds up the others: the ranks that are silent or gone while others wait for
/// them, else those that others wait for and that wait for no rank themselves; ranks that all wait in a
/// circle are named as one. Nothing, if no wait is as long as the threshold, or half of it where the rank
/// that is waited for is silent. A pure function.
std::optional<HangReport> diagnose(const WaitPicture& picture);

}  // namespace taxon::control
