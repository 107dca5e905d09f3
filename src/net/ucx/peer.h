#pragma once

#include "net/ucx/card.h"
#include "net/ucx/context.h"
#include "net/ucx/memory.h"
#include "net/ucx/outbox.h"
#include "net/wire/network.h"

namespace taxon::net {

/// Another rank, as UCX reaches it.
class UcxPeer final : public NetworkPeer {
 public:
  enum class Locality {
    SameHost,   // endpoint without failure detection, which UCX's shared memory does not have
    OtherHost,  // network devices only; a broken connection is noticed
  };
  UcxPeer(Rank rank, Locality place, Card card, Outbox::Setting setting, Completions& completions,
          UcxContext& context, UcxMemory& memory);

  /// Makes the endpoint if there is none. A failure is set in `lost`.
  void reach() override;
  /// Maps the peer's signal page. Without shared memory between the two nothing changes.
  void map_page(std::uint32_t signals);
  bool start(Op& op) override;
  bool forget(Op& op) override { return outbox.forget(op); }
  bool has_queue() const override { return outbox.has_queue(); }
  View map(const RemoteRegion& region) override;
  void wake() override;
  void confirm(SendWindow::Confirmation what) override;
  bool confirmed(SendWindow::Confirmation what) override { return outbox.confirm(what); }
  Path path() const override;

  /// Starts to close an endpoint with failure detection (others close with their worker); what was sent still
  /// arrives. The request, or null when it is closed.
  ucs_status_ptr_t close();
  void fail(ucs_status_t status);

 private:
  static void broke(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  const Locality place_;
  const Card card_;
  UcxContext& context_;
  UcxMemory& memory_;
  ucp_ep_h endpoint_ = nullptr;
  WireHeader confirmation_;  // but for the time

 public:
  Outbox outbox;
};

}  // namespace taxon::net
