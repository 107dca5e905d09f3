#pragma once

#include <memory>
#include <set>

#include "exchange/levels/topology.h"

namespace taxon::exchange {

/// Where replicas meet, around a topology with a codec: what travels through it is how far each replica went
/// since all agreed last, which is small, and not where it stands. What is agreed begins as the weights that
/// all have when they attend, and becomes whatever is spread after a meeting. Around a codec that loses
/// nothing it changes roundings alone. A part of the training's state, the same at every member: "agreed".
class Differences final : public Topology, public Stateful, public Asynchronous {
 public:
  /// `coded` is stateful.
  Differences(comm::Communicator& group, std::unique_ptr<Topology> coded)
      : group_(group), coded_(std::move(coded)) {}

  Range owned(Range range) const override { return coded_->owned(range); }
  bool spreads() const override { return coded_->spreads(); }
  Stateful* stateful() override { return this; }
  Asynchronous* asynchronous() override { return this; }
  /// REQUIRES: prepare() and serve() were called.
  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override;
  task::Task<void> spread(LevelTransfer transfer, const tensor::Arena& values) override;
  task::Task<double> total(double mine, std::uint16_t lane) override { return coded_->total(mine, lane); }

  void prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) override;
  std::vector<StateArena> state() const override;
  const CodecWork* codec_work() const override { return coded_->codec_work(); }
  task::Task<void> serve(std::vector<Range> units, const tensor::Arena* values,
                         task::Scope* listeners) override;

 private:
  task::Task<void> add_agreed(Range range, const tensor::Arena* values, float times);
  task::Task<void> run(tensor::Kernel kernel);

  comm::Communicator& group_;
  const std::unique_ptr<Topology> coded_;
  tensor::Arena agreed_;             // of the layout of the values
  std::set<std::uint32_t> meeting_;  // units whose sum has not been spread yet
};

}  // namespace taxon::exchange
