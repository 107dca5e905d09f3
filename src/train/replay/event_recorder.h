#pragma once

#include <optional>
#include <string>

#include "train/sync/agreement.h"
#include "train/train.h"

namespace taxon::train {

/// Records what this rank does, if the options want it, or has it follow what another run's did.
class EventRecorder {
 public:
  /// `options` outlive it.
  EventRecorder(Rank rank, const TrainOptions& options) : rank_(rank), options_(options) {}

  /// For whoever acts; it points into this object.
  exchange::EventLog log();
  /// All ranks' acts and what they led to, at rank 0; nothing elsewhere. Who of `ranks` ranks is not in the
  /// group has none. Collective over `group`, whose agreement it is. REQUIRES: acts are recorded.
  task::Task<std::optional<ReplayLog>> gather(const comm::Communicator* group, Agreement* agreement,
                                              int ranks, std::uint64_t parameter_hash);
  /// At rank 0 of a run that followed an order, whether it came to the same.
  std::optional<std::string> compare(std::uint64_t parameter_hash) const;

 private:
  Rank rank_;
  const TrainOptions& options_;
  exchange::AsyncEvents events_;
};

}  // namespace taxon::train
