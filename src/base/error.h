#pragma once

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/named.h"

namespace taxon {

/// What went wrong, as docs/errors.md lists it. The exit code of the process is a function of it.
enum class ErrorKind {
  Usage,        // the plan, the command line or the environment is wrong; nothing was started
  Data,         // a data set or model file is missing, truncated or of another kind
  Output,       // the output folder or a file in it cannot be written
  Checkpoint,   // a checkpoint is cut short, damaged, or of another model
  Rendezvous,   // the job could not be joined: address, port, secret, version, deadline
  PeerLost,     // another rank died
  Deadline,     // a wait outlasted the plan's deadline
  Mismatch,     // ranks disagree about the operation, or replicas differ
  Diverged,     // a loss or gradient is not finite, or weights are not
  Transport,    // the network library reported a failure that is not a lost peer
  Resources,    // the system refused memory, threads, open files or a larger file
  Interrupted,  // SIGINT or SIGTERM: the step was finished and a checkpoint written
  Internal,     // a bug in Taxon
};

/// One word for messages and reports, for example "peer-lost".
const char* to_string(ErrorKind kind);
/// The process's exit code for an error of this kind. See docs/errors.md.
int exit_code(ErrorKind kind);
/// Every kind, in the order of docs/errors.md.
const std::vector<ErrorKind>& all_error_kinds();

/// Where an operational failure happened. Empty fields are unknown or do not apply.
struct ErrorContext {
  std::optional<Rank> rank;  // the rank to blame: the first that was lost, the peer that is waited for
  std::string operation;     // "all_reduce", "rendezvous", "read"
  std::string tensor;        // a bucket's or a parameter's name, or a file's path
};

/// The one exception type of operational failures. Thrown where the failure is decided, logged once, at the
/// top.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, ErrorContext context = {})
      : std::runtime_error(message), kind_(kind), context_(std::move(context)) {}
  ErrorKind kind() const { return kind_; }
  const ErrorContext& context() const { return context_; }

 private:
  ErrorKind kind_;
  ErrorContext context_;
};

}  // namespace taxon
