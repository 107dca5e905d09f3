#pragma once

#include <map>
#include <memory>
#include <vector>

#include "exchange/layout/bucket.h"
#include "train/start/divided.h"

namespace taxon::train {

/// Of a parameter of a model that ranks hold parts of: those of other numbers share no bucket with it, since
/// its gradient is summed over other ranks, or counts at another rank alone.
int bucket_class(const model::ModelSpec& spec, int parameter);
/// All numbers are below.
int bucket_classes(const model::ModelSpec& spec);

/// The ranks of a replica that each make a summand of some gradient: stages that read one weight, and members
/// of the tensor axis that have a layer alike between layers that are split.
class SummandGroups {
 public:
  /// `divided` null: there are none. `ranks` and `spec`, the divided model's, outlive it.
  SummandGroups(comm::Runtime& runtime, RankGroups ranks, const model::ModelSpec& spec,
                const Divided* divided, const plan::MeshPlan& mesh);
  /// Collective over the replica.
  task::Task<void> establish();
  /// Collective over the replica, whose ranks have made their models themselves: `values`, of all parameters
  /// in the spec's order, get those of the first rank where several hold the same. Bodies of kernels that
  /// did not run have left it empty.
  task::Task<void> spread_shared(std::vector<double>* values) const;
  /// For Exchange::Setup.
  std::vector<comm::Communicator*> groups() const;
  /// Says of each bucket of `layout` where its summands meet and whether its norm counts here.
  void assign(exchange::Layout& layout, const std::vector<plan::BucketPlan>& buckets) const;

 private:
  static constexpr int kTensor = 0;  // of groups_
  struct Parameter {
    int group = -1;  // that sums its gradient
    bool counted = true;
    std::vector<int> holders;  // groups of ranks that hold the same of it
  };
  std::vector<Parameter> parameters_;  // of the spec
  const model::ModelSpec& spec_;
  std::map<std::vector<Rank>, std::unique_ptr<comm::Communicator>> own_;  // of stages
  std::vector<comm::Communicator*> groups_;
};

}  // namespace taxon::train
