#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "codec/codec.h"
#include "codec/feedback.h"
#include "exchange/compression/aggregation.h"
#include "exchange/levels/topology.h"

namespace taxon::exchange {

/// What a member has of its level's codec: the codecs of the warm-up and of later, and what it keeps between
/// steps, which is a part of the training's state and of the layout of the values that it sends.
class Coder {
 public:
  explicit Coder(const TopologyContext& context);

  /// True if so many values travel as they are, in that step.
  bool leaves_dense(std::size_t count, std::int64_t step) const;
  /// The codec after its warm-up.
  const codec::Codec& codec() const { return *stages_.back().codec; }
  /// Bytes of the first round's wire of so many values in a range of their own.
  std::size_t wire_bytes(std::size_t count, std::int64_t round) const;
  /// The range's way through the codec. The coder and the values outlive it.
  CompressedReduce reduce_of(comm::Communicator& group, const LevelTransfer& transfer,
                             const tensor::Arena& values);
  /// Values that travel as they are get the momentum that others have. They outlive it.
  task::Task<void> pass(comm::Communicator& group, LevelTransfer transfer, const tensor::Arena& values);
  /// The same as reduce_of() without a memory, for values that lie elsewhere: those of `transfer.range` in
  /// the layout.
  CompressedReduce reduce_of_part(comm::Communicator& group, const LevelTransfer& transfer, View values);

  /// True if each bucket's sum is chosen: as it is, or by the codec.
  bool chooses() const { return plan_.name == "auto"; }
  /// An exchange sent so many bytes, where values as they are would have been so many.
  void count(double dense_bytes, double sent_bytes) {
    work_.dense_bytes += dense_bytes;
    work_.sent_bytes += sent_bytes;
  }
  const CodecWork& work() const { return work_; }

  /// As those of Stateful. Without a call to prepare() the first reduction's values are one vector.
  void prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots);
  /// What reduce_of_part() needs of it.
  void know(std::span<const tensor::Slot> slots) { slots_.assign(slots.begin(), slots.end()); }
  std::vector<StateArena> state() const;

 private:
  struct Stage {
    std::unique_ptr<codec::Codec> codec;
    std::vector<codec::Feedback> feedbacks;  // by the turn of its cycle
  };
  static std::vector<Stage> stages_of(const plan::CodecPlan& plan, const codec::CodecRow& row);
  const Stage& stage(std::int64_t step) const;
  std::span<const codec::Piece> pieces(Range range);

  const plan::CodecPlan plan_;
  const std::string collective_;
  const std::span<const comm::CollectiveRow> own_collectives_;
  const std::uint64_t seed_;
  const std::vector<Stage> stages_;
  const bool keeps_;
  bool prepared_ = false;
  CodecWork work_;
  tensor::Arena errors_, velocity_, lasting_, estimate_;  // as the values' arena
  std::vector<tensor::Slot> slots_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<codec::Piece>> pieces_;  // by range
};

/// The tensors in a range of the arena that has these slots, as codecs see them: a tensor of several
/// dimensions is a matrix whose rows are its first. Places count from the range's beginning.
std::vector<codec::Piece> pieces_of(std::span<const tensor::Slot> slots, Range range);

/// True if members keep what did not travel.
bool keeps_errors(const plan::CodecPlan& plan, const codec::CodecRow& row);
/// True if so many values of a level with this codec travel as they are.
bool leaves_dense(const plan::CodecPlan& plan, std::size_t count);

}  // namespace taxon::exchange
