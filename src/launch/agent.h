#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/agent_messages.h"

namespace taxon::launch {

/// What the program gives to the agent of a host.
struct AgentOptions {
  std::function<void(const std::string&)> say;  // lines for the log
  /// What keeps this host from its part of the job, whose folder is the working directory by then: a
  /// sentence for each thing.
  std::function<std::vector<std::string>(const AgentJob&)> check;
};

/// One host's end of a launch over ssh: answers the launcher's lines on standard input, then runs this host's
/// ranks. Returns 0 if the launcher went away or said no more; ends the process with run_workers()' code once
/// ranks were started. Throws Error{Rendezvous} for lines that are not of the launcher's form.
int serve(const AgentOptions& options);

}  // namespace taxon::launch
