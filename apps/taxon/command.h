#pragma once

#include <functional>
#include <string>

#include "apps/taxon/identity.h"
#include "control/secret.h"
#include "plan/plan.h"

namespace taxon::app {

// What commands have in common.

/// Set for the workers that --workers starts: their parent has looked after what one alone may do.
inline constexpr const char* kLocalWorker = "TAXON_LOCAL_WORKER";

/// This process's environment.
Environment process_environment();

/// A line for the log, on stderr.
void say(const std::string& line);

/// Makes a file of `text`, or none; and folders that are missing. Throws Error{Output}.
void write_file(const std::string& path, const std::string& text);

/// The job's secret: the plan's file first, then the environment's text, then the environment's file. Throws
/// Error{Usage} for a file that can't be read.
control::Secret find_secret(const plan::Plan& plan, const Environment& environment);

/// Runs a command that joins no job and returns its exit code: an exception is said on stderr and gives its
/// code.
int run_alone(const std::function<int()>& command);

/// Runs a command of a rank and returns its exit code. An exception is said on stderr, handed to the
/// launcher, and ends the process with its code.
int run_command(const Environment& environment, const std::function<int()>& command);

}  // namespace taxon::app
