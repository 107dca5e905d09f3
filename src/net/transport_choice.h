#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/process_transport.h"

namespace taxon::net {

/// One value of the plan's `transport.kind`.
struct TransportChoice {
  const char* name = nullptr;
  const char* explanation = nullptr;
  /// Of ranks on one host.
  enum class Memory { Shared, Apart } memory = Memory::Apart;
  /// What UCX may use, as in UCX_TLS, where all ranks are on one host, and where they are not. Null: it goes
  /// without UCX.
  const char* tls_within_host = nullptr;
  const char* tls = nullptr;
  /// Where Taxon's own TCP carries what shared memory and RDMA do not.
  enum class Tcp { None, BetweenHosts, Always } tcp = Tcp::None;
  /// False: it refuses ranks on several hosts.
  bool leaves_host = true;
  /// Null: this build has none.
  std::unique_ptr<ProcessTransport> (*make)(task::Executor& executor, task::PendingOps& waits,
                                            ProcessTransportOptions options) = nullptr;
  /// Debian's package that a build must find to have it. Null: every build has it.
  const char* package = nullptr;
};

/// Every choice; the first is the default.
std::span<const TransportChoice> transport_choices();
/// Throws Error{Usage} listing the choices.
const TransportChoice& find_transport_choice(const std::string& name);
/// Their names, the default first.
std::vector<std::string> transport_names();
/// Whether nothing of it leaves a host in clear when it is told to encrypt, and what to do where it can't.
bool can_encrypt(const TransportChoice& choice);
inline constexpr const char* kHowToEncrypt = "none of it can be encrypted: choose auto, posix or tcp";
/// What to do before a choice can be made that this build has not; empty for one that it has.
std::string what_is_missing(const TransportChoice& choice);

/// The transport that `options.transport` names. Throws Error{Usage} for unknown choices and those that this
/// build has not, Error{Transport} when the network can't start.
std::unique_ptr<ProcessTransport> make_transport(task::Executor& executor, task::PendingOps& pending,
                                                 ProcessTransportOptions options);

}  // namespace taxon::net
