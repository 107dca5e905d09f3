#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/agent_messages.h"

namespace taxon::launch {

struct SshLaunch {
  std::vector<std::string> hosts;               // as ssh knows them; the first has rank 0
  std::string user;                             // empty: as ssh says
  std::string ssh = "ssh";                      // the command and its options
  AgentJob job;                                 // each host's, but for `node` and `first_rank`
  std::function<void(const std::string&)> say;  // lines for the log
};

/// Trains on several hosts over ssh: looks at each of them first, lists what is wrong with any, and starts
/// one set of ranks a host, whose lines it prints behind the host's name. Returns the exit code of who failed
/// first; 143 if it was interrupted, which it passes on. No agent outlives this process. Call it from the
/// main thread; it installs signal handlers while it runs. Throws Error{Usage} with all that is wrong with
/// the hosts, Error{Interrupted} if a stop signal came before anything was started.
int launch_over_ssh(const SshLaunch& launch);

}  // namespace taxon::launch
