#pragma once

#include "exchange/server/consistency_controller.h"
#include "exchange/server/server_update.h"

namespace taxon::exchange {

/// A server's end of one worker's contributions to one part, and of the answers: by message, written into
/// place, or through a codec. Executor's thread only; what it is made from outlives it.
class ServerChannel {
 public:
  ServerChannel(comm::Communicator& group, ChannelPeer& peer, OwnedPart& part, ServerUpdate& update,
                comm::FailureMonitor* failures);

  /// The next contribution, decoded; or the head alone of a worker that closes. Throws Error{Mismatch} for
  /// one that no worker of this run may hand in; `counts`: what it has handed in so far.
  task::Task<Contribution> receive(const ConsistencyController* counts);
  /// Where the worker wants its answer, if that can be put there as it is made; else empty. The answer to the
  /// next reply() is then there.
  View place_of_answer();
  task::Task<void> reply(ServerWire::Head head, const tensor::Arena* answer);
  Channel& channel() { return channel_; }

  /// Makes `windows`, memory of the transport's where workers of this host may write contributions to the
  /// channels. None if it can't be had: they come as messages. Both outlive the channels' use.
  static void open_windows(net::Transport& transport, const std::vector<ServerChannel*>& channels,
                           std::vector<ChannelPeer>* workers, tensor::Arena* windows);

 private:
  /// Throws Error{Mismatch} for a head that no worker of this run may send.
  void check(const ServerWire::Head& head, const ConsistencyController& counts) const;

  OwnedPart& part_;
  ServerUpdate& update_;
  ValueChannel channel_;
  const ChannelPeer& peer_;
  const tensor::Arena wire_;                // of a coded contribution
  const tensor::Arena* windows_ = nullptr;  // of all channels
  Range window_range_;                      // in windows_
  IdleArenas window_;                       // there, while no contribution is in it
  bool in_place_ = false;                   // the answer is where the worker wants it
};

}  // namespace taxon::exchange
