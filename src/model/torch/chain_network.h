#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/torch/network.h"

namespace taxon::model {

/// A stage of a chain, as far as its split goes.
struct ChainStage {
  std::string name;
  std::vector<at::Tensor> parameters, buffers;  // that a row cuts
  std::size_t statistics = 0;                   // buffers that it keeps of its samples
  /// Several layers that divide themselves; null: it is no such block.
  SplitBlock* block = nullptr;
  /// Something is computed of what the layer gives, which needs sums of members' parts; and all features, or
  /// a member's alone.
  bool has_rest = false, rest_takes_parts = true;
  /// By which members can share it, the first ones of equally good ones first; "none" can always be.
  std::vector<const parallel::SplitRow*> rows;
  /// Where its neighbours leave it no row of parts.
  const parallel::SplitRow* otherwise = &parallel::find_split("none");
  /// Why members compute all of it where they do, for the run's account; empty: no word of it.
  std::string whole;
  /// By row: why it can't be split so. In words that follow "can't be split by ...: ".
  std::map<std::string, std::string> refused = {};
  // Elements of a sample, where rows are chosen by what they send: what comes to the layer and leaves it, and
  // SplitBlock::inside().
  double inputs = 0, outputs = 0, inside = 0;
};

/// A network that is a chain of stages, of which each is a layer and what follows from it without parameters:
/// how members of a tensor axis divide it.
class ChainNetwork : public Network {
 public:
  /// By default a layer is split so that it makes features in parts where the next one can take them, and
  /// that one so; what stands between them passes them on; others as they say.
  NetworkSplit split(Splitter splitter) final;
  at::Tensor forward(int stage, int step, at::Tensor inputs, const at::Tensor& entering) final;
  using Network::forward;

 protected:
  /// The stages, of a network that is not split yet.
  virtual std::vector<ChainStage> chain(const Splitter& splitter) = 0;
  /// Why members would not draw the same numbers, as a way out of it; empty: it draws none.
  virtual std::string dropout() const = 0;
  /// A stage up to its layer, and what lies behind that.
  virtual at::Tensor to_layer(int stage, at::Tensor inputs) = 0;
  virtual at::Tensor behind_layer(int stage, at::Tensor outputs) = 0;

 private:
  /// Of a stage that is split.
  struct Split {
    SplitBlock* block = nullptr;
    at::Tensor bias;  // that one member adds
    int steps = 1;    // the last has what is behind the layer
  };
  std::vector<NetworkStep> split_stage(const ChainStage& stage, const parallel::SplitRow& row,
                                       Splitter& splitter);

  std::vector<Split> splits_;
  int member_ = 0;
};

}  // namespace taxon::model
