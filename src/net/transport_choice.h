#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/process_transport.h"

namespace taxon::net {

/// One value of the plan's `transport.kind`.
struct TransportChoice {
  const char* name;
  const char* explanation;
  /// Of ranks on one host.
  enum class Memory { Shared, Apart } memory;
  /// What UCX may use, as in UCX_TLS. Null: it goes without UCX.
  const char* tls;
  /// Null: this build has none.
  std::unique_ptr<ProcessTransport> (*make)(task::Executor& executor, task::Waits& waits,
                                            ProcessTransportOptions options);
  /// Debian's package that a build must find to have it. Null: every build has it.
  const char* package;
};

/// Every choice; the first is the default.
const std::vector<TransportChoice>& transport_choices();
/// Throws Error{Usage} listing the choices.
const TransportChoice& find_transport_choice(const std::string& name);
/// Their names, the default first.
std::vector<std::string> transport_names();
/// What to do before a choice can be made that this build has not; empty for one that it has.
std::string what_is_missing(const TransportChoice& choice);

/// The transport that `options.transport` names. Throws Error{Usage} for unknown choices and those that this
/// build has not, Error{Transport} when the network can't start.
std::unique_ptr<ProcessTransport> make_transport(task::Executor& executor, task::Waits& waits,
                                                 ProcessTransportOptions options);

}  // namespace taxon::net
