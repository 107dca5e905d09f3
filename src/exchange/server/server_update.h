#pragma once

#include <functional>

#include "exchange/server/server_codecs.h"
#include "optim/staleness.h"

namespace taxon::exchange {

/// What a worker handed in.
struct Contribution {
  ServerWire::Head head{};
  Buffer values;  // of a codec that asks: its wire
  std::int64_t at(ServerWire::Field field) const { return head[field]; }
  bool closes() const { return at(ServerWire::KindOf) == ServerWire::Close; }
};

/// One of those that make an update.
struct PooledContribution {
  Contribution contribution;
  optim::Lateness lateness;
  Channel* worker = nullptr;  // whence it came
};

/// A server's arithmetic, in kernels: what workers handed in becomes a sum, the sum an update, values an
/// answer. Executor's thread only.
class ServerUpdate {
 public:
  /// The group and the weights outlive it.
  ServerUpdate(comm::Communicator& group, const tensor::Arena& weights, std::unique_ptr<ServerState> owner,
               std::unique_ptr<ServerCoders> coders);
  using LateRule = std::function<std::unique_ptr<optim::StalenessRule>(std::size_t owned)>;
  /// Completes parts whose ranges are known. `wholes`: elements of their units. An empty `late`: late
  /// contributions count as others.
  void prepare(std::vector<OwnedPart*> parts, const std::vector<std::size_t>& wholes,
               const std::vector<tensor::Slot>& slots, int workers, const LateRule& late);

  /// The owner's memory, and what workers are known to have, start as the weights.
  task::Task<void> begin(const OwnedPart* part);
  /// The sum of a pool, each corrected for its lateness; overwrites the first one's memory.
  task::Task<Buffer> sum(OwnedPart* part, std::vector<PooledContribution>* pool);
  task::Task<void> apply(const OwnedPart* part, const tensor::Arena* sum, PendingUpdate update);
  /// What a worker gets, and has then: the owner's values after `version` updates; or, where answers are
  /// updates, what the last one left in `sum`. In `place`, memory of the worker's, unless that is empty.
  task::Task<Buffer> answer(OwnedPart* part, int worker, std::int64_t version, const tensor::Arena* sum,
                            View place);
  task::Task<void> decode(const OwnedPart* part, int worker, std::int64_t round, View wire, View values) {
    return codecs_.decode(part, worker, round, wire, values);
  }

  ServerState& owner() const { return *owner_; }
  bool answers_values() const { return owner_->answers == ServerState::Answers::Values; }
  const tensor::Arena& weights() const { return weights_; }
  /// What it keeps beside the owner, packed: of owned elements alone.
  std::vector<std::pair<std::string, tensor::Arena*>> state();

 private:
  comm::Communicator& group_;
  const tensor::Arena& weights_;
  const std::unique_ptr<ServerState> owner_;
  ServerCodecs codecs_;
  std::unique_ptr<optim::StalenessRule> late_;
  int workers_ = 0;
};

}  // namespace taxon::exchange
