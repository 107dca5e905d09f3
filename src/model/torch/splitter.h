#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/staged.h"
#include "model/torch/named_tensor.h"
#include "parallel/split.h"
#include "parallel/split_choice.h"

namespace torch::nn {
class Module;
}

namespace taxon::model {

/// What a member of the tensor axis computes of a stage of a network without having to move anything.
struct NetworkStep {
  std::string name;
  const parallel::SplitRow* row = nullptr;
  std::vector<at::Tensor> parameters;  // that it reads
  /// It also takes what the first step of its stage took.
  bool reads_entering = false;
};

/// Of which each member has its part.
struct TensorCut {
  at::Tensor tensor;
  int dimension = 0;
  int blocks = 1;
};

/// How a network is divided over the members.
struct NetworkSplit {
  std::vector<std::vector<NetworkStep>> stages;
  std::vector<TensorCut> cuts;      // of parameters and buffers
  std::vector<at::Tensor> partial;  // of whose gradients each member makes a summand
  /// The last step leaves logits of the member's classes alone, and no member needs those of others: the loss
  /// is made of summaries of these (torch/loss.h).
  bool by_classes = false;
  std::string account;  // Staged::account()
};

class Splitter;

/// A module of several layers that members of a tensor axis divide by a rule of its own.
class SplitBlock {
 public:
  virtual ~SplitBlock() = default;
  /// Its steps; it takes what all members have, and leaves that or summands.
  virtual std::vector<NetworkStep> split(const std::string& name, Splitter& splitter) = 0;
  virtual at::Tensor step(int step, at::Tensor input, const at::Tensor& entering) = 0;
  /// Elements that members add up and share out between its steps, for these samples. REQUIRES: not split.
  virtual double inside(const at::Tensor& input) = 0;
};

/// Collects how the layers of a network are divided, and all reasons why they can't be.
class Splitter {
 public:
  /// `sample`: one, of zeros, as the network takes them. `compute`: the type of activations and weights.
  Splitter(const Division& division, std::string model, at::Tensor sample, at::ScalarType compute)
      : division_(division),
        model_(std::move(model)),
        sample_(std::move(sample)),
        element_bytes_(c10::elementSize(compute)) {}

  const std::string& model() const { return model_; }
  const at::Tensor& sample() const { return sample_; }
  int members() const { return division_.members; }
  int member() const { return division_.member; }
  /// The row of that name, and all rows: the program's own first.
  const parallel::SplitRow& find(std::string_view name) const {
    return parallel::find_split(name, division_.own_splits);
  }
  std::vector<const parallel::SplitRow*> rows() const;
  std::span<const parallel::LayerKind> own_kinds() const { return division_.own_kinds; }
  /// Whether choose() is asked for; a network without it has its own rule.
  bool chooses() const { return division_.choose; }
  /// Chooses rows for the layers that the division does not name.
  void choose(std::vector<parallel::SplitCandidate> layers);
  /// The row that the division asks for by the layer's name, or that was chosen; null: neither.
  const parallel::SplitRow* wanted(const std::string& layer);
  /// Cuts what is the layer's own by the row, and gives it a part of nothing else. Returns tensors of one
  /// dimension that all members have and, the layer's outputs being summands, only one may add.
  at::Tensor cut(const std::string& layer, torch::nn::Module& module, const parallel::SplitRow& row);
  at::Tensor cut(const std::string& layer, const std::vector<at::Tensor>& parameters,
                 const std::vector<at::Tensor>& buffers, const parallel::SplitRow& row);
  /// Whoever calls has seen that the members can share each of the blocks.
  void cut_blocks(const at::Tensor& tensor, int dimension, int blocks) {
    split_.cuts.push_back({tensor, dimension, blocks});
  }
  /// For a layer of which each member computes its samples; `statistics`: buffers that it keeps of them.
  void take_samples(const std::string& layer, const std::vector<at::Tensor>& parameters,
                    std::size_t statistics);
  /// For a step that members compute whole, of all samples or of their own; refuses other rows.
  void keep_whole(const NetworkStep& step);
  void partial(const at::Tensor& tensor) { split_.partial.push_back(tensor); }
  void leave_classes() { split_.by_classes = true; }
  /// For the run's account.
  void tell(const std::string& line) { split_.account += (split_.account.empty() ? "" : "\n") + line; }
  void refuse(std::string reason) { reasons_.push_back(std::move(reason)); }
  /// Throws Error{Usage} with all reasons, names of layers that nothing has among them.
  NetworkSplit finish(std::vector<std::vector<NetworkStep>> stages);

 private:
  void refuse_mixed(const at::Tensor& tensor, const std::vector<std::vector<NetworkStep>>& stages);

  const Division& division_;
  const std::string model_;
  const at::Tensor sample_;
  const std::size_t element_bytes_;
  std::map<std::string, const parallel::SplitRow*> chosen_;
  NetworkSplit split_;
  std::set<std::string> asked_;
  std::vector<std::string> reasons_;
};

/// Of which members have parts by the row; -1: all have all of it.
int cut_dimension(const at::Tensor& tensor, const parallel::SplitRow& row);
/// What this member has of it.
at::Tensor part_of(const TensorCut& cut, const Division& division);
/// `sum`, to which a layer has added `bias`, on features `dimension`: the same on the first member, without
/// its value and with its gradient on others. Null bias: as it is.
at::Tensor with_bias_once(at::Tensor sum, const at::Tensor& bias, int member);

}  // namespace taxon::model
