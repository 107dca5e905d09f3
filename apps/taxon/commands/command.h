#pragma once

#include <functional>
#include <string>

#include "data/storage.h"
#include "launch/environment.h"

namespace taxon::app {

// What commands have in common.

/// Set for the workers that --workers starts: their parent has looked after what one alone may do.
inline constexpr const char* kLocalWorker = "TAXON_LOCAL_WORKER";

/// A line for the log, on stderr.
void say(const std::string& line);

/// Makes a file of `text`, or none; and folders that are missing. Throws Error{Output}.
void write_file(const std::string& path, const std::string& text);

/// Throws Error{Output} before anything is done in vain, if `file` can't be written.
void require_writable(data::Storage& storage, const std::string& file);

/// Runs a command that joins no job and returns its exit code: an exception is said on stderr and gives its
/// code.
int run_alone(const std::function<int()>& command);

/// Runs a command of a rank and returns its exit code. An exception is said on stderr, handed to the
/// launcher, and ends the process with its code.
int run_command(const launch::Environment& environment, const std::function<int()>& command);

}  // namespace taxon::app
