#pragma once

#include <string>
#include <vector>

#include "apps/taxon/commands/train.h"

namespace taxon::app {

/// The words of `taxon launch`.
struct LaunchArguments {
  std::vector<std::string> hosts;
  std::string user;                // empty: as ssh says
  int slots = 1;                   // ranks of each host
  std::string ssh = "ssh";         // the command and its options
  std::vector<std::string> words;  // the rest: those of `taxon train`
  std::size_t recipe_word = 0;     // of them the recipe
  TrainArguments train;            // the same, parsed
};

/// Trains on several hosts over ssh: looks at each of them first, lists what is wrong with any, and starts
/// one set of ranks a host, whose lines it prints behind the host's name. Returns the exit code of who failed
/// first; 143 if it was interrupted, which it passes on.
int run_launch(const LaunchArguments& arguments);

}  // namespace taxon::app
