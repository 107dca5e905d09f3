#pragma once

#include <memory>
#include <vector>

#include "net/process_transport.h"
#include "net/transport_choice.h"
#include "net/ucx/peer.h"
#include "net/wire/inbox.h"
#include "net/wire/network.h"

namespace taxon::net {

/// UCX: shared memory within a host, RDMA (or TCP) between hosts. Endpoints between hosts are made at their
/// first use. Owns the rank's regions, which peers of its host map.
class UcxNetwork final : public Network {
 public:
  /// Throws Error{Transport} when UCX can't start. REQUIRES: the choice is one of UCX's.
  UcxNetwork(const TransportChoice& choice, const ProcessTransportOptions& options);

  UcxMemory& memory() { return memory_; }
  /// Ranks of equal `host` share memory.
  bool may_share_memory() const { return context_.may_share_memory(); }
  /// Has devices that lead to other hosts.
  bool has_network() const { return context_.has_network(); }
  /// What arrives goes there. `page`: this rank's, whose nonce is set here.
  void open(Inbox& inbox, SignalPage page);
  /// What another rank must know. `page`: the region of this rank's signals.
  Card card(const Region& page) const;
  /// The peer that gave this card; it must die after close() and before this network. One of this host is
  /// reached at once. Throws Error{Transport} when it can't be.
  std::unique_ptr<UcxPeer> connect(Rank rank, UcxPeer::Locality place, Card card,
                                   const task::Executor& executor, Completions& completions);

  bool poll() override;
  bool arm() override;
  int event_fd() override { return context_.event_fd(); }
  bool is_drained() const override;
  void close(End end) override;

 private:
  static ucs_status_t fragment_arrived(void* self, const void* header, std::size_t header_size, void* data,
                                       std::size_t size, const ucp_am_recv_param_t* param);
  static ucs_status_t wake_arrived(void*, const void*, std::size_t, void*, std::size_t,
                                   const ucp_am_recv_param_t*) {
    return UCS_OK;
  }
  void handle(unsigned id, ucp_am_recv_callback_t callback);

  const ProcessTransportOptions options_;
  UcxContext context_;
  UcxMemory memory_;
  Inbox* inbox_ = nullptr;
  SignalPage page_;
  std::vector<UcxPeer*> peers_;
};

}  // namespace taxon::net
