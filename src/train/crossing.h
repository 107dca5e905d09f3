#pragma once

#include <vector>

#include "comm/communicator.h"
#include "model/staged.h"
#include "parallel/placement.h"
#include "train/activations.h"

namespace taxon::train {

/// What lies between two neighbouring pieces of a stage (model::Piece), one way: of a piece's outputs, or of
/// the gradients of its inputs.
struct Crossing {
  parallel::Movement movement = parallel::Movement::None;
  bool from_samples = false, to_samples = false;  // whether a member has its samples alone, on either side
  std::size_t samples = 0;                        // of the micro-batch: all members'
  std::size_t elements = 0;                       // of a sample, as a member leaves them
  std::uint32_t unit = 0;
  bool moves_samples() const { return from_samples != to_samples; }
};

/// What a piece leaves of so many samples of all members, and the gradients of what it takes.
Crossing onward(const std::vector<model::Piece>& pieces, int index, std::size_t samples);
Crossing back(const std::vector<model::Piece>& pieces, int index, std::size_t samples);
/// What one of so many members sends for it, the members' mean.
double bytes_sent(const Crossing& crossing, int members, DType type);

/// Carries values over crossings, among the members of a tensor axis.
class Crossings {
 public:
  /// Both outlive it. The group is established.
  Crossings(comm::Communicator& members, ActivationPool& pool) : members_(members), pool_(pool) {}
  /// Where a piece writes what it leaves, with room for what the others add; nothing where no member has
  /// anything to leave.
  Payload room(const Crossing& crossing);
  /// Collective: `values`, in their room, become what this member takes on the other side.
  task::Task<void> carry(Crossing crossing, Payload* values);

 private:
  std::size_t size() const { return static_cast<std::size_t>(members_.size()); }
  std::size_t member() const { return static_cast<std::size_t>(members_.rank()); }
  Range samples_of(const Crossing& crossing, std::size_t member) const;
  /// Elements between the places of two members' samples while these travel: collectives have equal parts.
  std::size_t stride(const Crossing& crossing) const;
  /// Moves samples between one after the other and in places.
  task::Task<void> place(Crossing crossing, bool apart, tensor::Arena* memory);
  task::Task<void> exchange_all(Crossing crossing, Payload* values);

  comm::Communicator& members_;
  ActivationPool& pool_;
};

}  // namespace taxon::train
