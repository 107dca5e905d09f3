#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "net/tcp/inbound.h"
#include "net/tcp/listener.h"
#include "net/tcp/peer.h"
#include "net/waker.h"
#include "net/wire/network.h"

namespace taxon::net::tcp {

/// Taxon's own TCP: every rank listens and calls those whom it sends to; a connection carries frames one way.
/// Nothing of it is interpreted before both have proved that they know the job's key. docs/transport.md.
class TcpNetwork final : public Network, private Listener::Host {
 public:
  /// Listens. Throws Error{Transport} when it can't.
  TcpNetwork(task::Executor& executor, const ProcessTransportOptions& options, Inbox& inbox,
             Completions& completions);
  ~TcpNetwork() override;

  /// What another rank must know to call this one.
  std::vector<std::byte> card() const;
  /// The peer that gave this card; it must die after close() and before this network. Throws Error{Mismatch}
  /// for what is no card.
  std::unique_ptr<TcpPeer> connect(Rank rank, ConstView card);
  /// event_fd() becomes readable when this descriptor does, too.
  void watch_also(int descriptor) { poller_.watch_level(descriptor); }

  bool poll() override;
  bool arm() override;
  int event_fd() override { return poller_.fd(); }
  bool is_drained() const override;
  void close(End end) override;
  /// Callers that were turned away or took too long.
  std::uint64_t strangers() const { return listener_->strangers(); }

 private:
  class Inbound;
  void admitted(Stream stream, const Answer& answer) override;
  bool read(Inbound& from);
  void wake_when_needed();

  task::Executor& executor_;
  const ProcessTransportOptions options_;
  Inbox& inbox_;
  Completions& completions_;
  const Token token_;
  const std::string interface_;
  Poller poller_;
  std::optional<Listener> listener_;
  std::vector<std::unique_ptr<Inbound>> inbound_;
  std::vector<TcpPeer*> peers_;  // by rank; null where another network goes
  std::vector<std::byte> sink_;
  Waker waker_;
};

}  // namespace taxon::net::tcp
