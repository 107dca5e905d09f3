#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/view.h"
#include "net/transport_choice.h"

namespace taxon::net {

/// Error{Transport} with UCX's own word for the status.
Error ucx_error(const std::string& what, ucs_status_t status);
/// Why there is no way to a peer: Resources where this process was refused memory or files, which nobody else
/// can mend, and otherwise PeerLost. UCX has one word for shared memory that may not be mapped here and for
/// what died with the peer: the former it is where this process has little left to map (`is_short`).
Error ucx_path_error(Rank peer, ucs_status_t status, bool is_short);

/// A UCX context with its worker. One thread. Settings that the user made in the environment (UCX_TLS,
/// UCX_NET_DEVICES) win over `choice` and `address`.
class UcxContext {
 public:
  /// Opens TCP at the interface of `address` only (ProcessTransportOptions::address), and RDMA ports.
  UcxContext(const TransportChoice& choice, const std::string& address);
  UcxContext(const UcxContext&) = delete;
  ~UcxContext();

  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  /// False when nothing that UCX may use shares memory.
  bool may_share_memory() const { return may_share_memory_; }
  /// False when nothing that UCX may use leads to other hosts.
  bool has_network() const { return has_network_; }
  /// True when regions come out of /dev/shm and its size limits them.
  bool allocates_in_dev_shm() const { return allocates_in_dev_shm_; }
  int event_fd() const { return event_fd_; }
  enum class AddressOf { All, NetworkOnly };
  std::vector<std::byte> address(AddressOf which) const;
  /// Destroys the worker, with its endpoints, before the context.
  void close();
  /// Leaves both to the end of the process. After a cancellation: UCX 1.13 aborts when a worker is destroyed
  /// in the middle of a connection's handshake (an assertion in ucp_request_send_state_ff).
  void abandon();

 private:
  void open_context(const TransportChoice& choice, const std::string& address);
  void open_worker();
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  bool may_share_memory_ = false;
  bool has_network_ = false;
  bool allocates_in_dev_shm_ = false;
  int event_fd_ = -1;
};

}  // namespace taxon::net
