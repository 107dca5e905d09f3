#pragma once

#include <torch/nn/module.h>

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "job/own_loop.h"
#include "model/torch/framework.h"
#include "model/torch/module_model.h"
#include "model/torch/networks/layers.h"
#include "taxon/train.h"

/// A program's own training loop over a torch::nn::Module, on the ranks of a job. Needs libtorch's headers.
namespace taxon {

using model::WeightsAtBegin;
/// torch::nn::Linear, with the gradient of a matrix of samples' weight computed where it travels from, and
/// with several ranks in blocks, of which the first travel while the last are computed; where weights are
/// waited for as they are read, so is the weight itself. Worth it where a weight has millions of elements.
/// That gradient can't be differentiated itself.
using Linear = model::DirectLinear;
using LinearImpl = model::DirectLinearImpl;
using DataParallelOptions = job::OwnLoopOptions;

/// Trains `net` with whatever exchange the job's plan says: dense, sharded, compressed, local steps, servers.
/// The program computes the passes, on one thread; the plan says how many samples a step has, what updates
/// the weights, and how long training takes.
///
///     taxon::DataParallel model(job, net, {.samples = set.size()});
///     while (model.active()) {
///       auto [x, y] = set.take(model.share());
///       auto loss = criterion(model.forward(x), y);  // a mean over the share
///       loss.backward();                             // buckets travel meanwhile
///       model.step();
///     }
///
/// The module's parameters become views of memory that gradients and updates live in, and are its own again
/// when the object dies; with model.memory_format: channels_last those of four dimensions lie so, as by
/// PyTorch's Module.to(memory_format=...). All floating-point tensors of it are cast to the plan's
/// precision.compute. Parameters that a step does not use have a gradient of zero. Weights and buffers begin
/// as rank 0's. Parameters have no grad(), and hooks of theirs (register_hook) are not called: gradients are
/// where they travel from. When another rank fails the program hears of it at step(), or in a backward pass.
/// `Net`: a holder made by TORCH_MODULE, or a pointer to a module.
template <class Net>
class DataParallel {
 public:
  /// Waits for all ranks, and for the first step. Throws as taxon::train().
  DataParallel(Job& job, Net net, DataParallelOptions options)
      : net_(std::move(net)),
        images_(model::format_of(job.plan().model.memory_format, at::MemoryFormat::Preserve)),
        model_(*net_, job.plan().precision.compute, job.plan().model, turns_, options.weights),
        loop_(job, model_, turns_, std::move(options)) {
    model::use_threads(job.process().threads());
    if (active()) model_.begin_reads();
  }
  ~DataParallel() {
    if (active()) model_.abandon_passes();
  }

  /// A step waits for this rank's gradients. False: the run is over, or this rank is a server.
  bool active() const { return loop_.step() != nullptr; }
  /// Which samples of the training set are this rank's in this step: shuffled by the plan's seed, the same
  /// whatever the number of ranks. Who takes others takes as many. Throws Error{Usage} unless active(), as
  /// all that belongs to a step.
  std::span<const std::int64_t> share() const { return data::whole(current().labels); }

  /// The module's forward pass, of tensors that are images in the order of the plan's model.memory_format
  /// (auto: as they are). Tensors, vectors and tuples of them come back ready for backward(): of a loss that
  /// is a mean over the share. Without gradients (torch::NoGradGuard), and after the end, as the module's.
  template <class... Inputs>
  auto forward(Inputs&&... inputs) {
    return weighted(net_->forward(arranged(std::forward<Inputs>(inputs))...));
  }
  /// What a term of the loss that goes around forward()'s outputs (a penalty on weights) is multiplied with,
  /// or it counts as often as there are ranks: the share's part of the step's samples. So is a term of
  /// gradients that the program takes by torch::autograd::grad(), which come as of the share's mean.
  double weight() const {
    return static_cast<double>(share().size()) / static_cast<double>(current().global_size);
  }
  /// While it lives backward passes are not the step's last: their gradients add up, and none travels.
  class NoSync {
   public:
    explicit NoSync(model::ModuleModel& model) : model_(model) { model_.set_last(false); }
    ~NoSync() { model_.set_last(true); }
    NoSync(const NoSync&) = delete;

   private:
    model::ModuleModel& model_;
  };
  NoSync no_sync() { return NoSync(model_); }

  /// Ends the step: returns when the next one may begin (DataParallelOptions::weights); false when the run is
  /// over.
  /// `loss`: the share's mean, for reports. Throws as taxon::train(), and Error{Usage} for a step without a
  /// backward pass, or with one that failed, or whose module has got other parameters.
  bool step(double loss = 0) {
    const auto samples = static_cast<double>(share().size());
    model_.end_passes();
    loop_.next({.loss_sum = loss * samples});
    if (active()) model_.begin_reads();
    return active();
  }
  /// The run ends soon, with a checkpoint where it has an output folder: ranks agree on it when the next step
  /// begins, and that is the last. Go on while active().
  void stop() { loop_.stop(); }

  const Net& module() const { return net_; }
  /// What came of the run. REQUIRES: it is over.
  const train::Outcome& outcome() const { return loop_.outcome(); }

 private:
  const model::StepInput& current() const {
    if (!active())
      throw Error(ErrorKind::Usage,
                  "the run is over, or this rank is a server: ask active() before each step");
    return *loop_.step();
  }
  template <class Input>
  decltype(auto) arranged(Input&& input) const {
    if constexpr (std::is_same_v<std::remove_cvref_t<Input>, at::Tensor>)
      return model::arranged(input, images_);
    else
      return std::forward<Input>(input);
  }
  at::Tensor weighted(at::Tensor output) {
    return active() ? model_.weighted(*loop_.step(), {std::move(output)}).front() : output;
  }
  std::vector<at::Tensor> weighted(std::vector<at::Tensor> outputs) {
    return active() ? model_.weighted(*loop_.step(), std::move(outputs)) : outputs;
  }
  template <class... Tensors>
  std::tuple<Tensors...> weighted(std::tuple<Tensors...> outputs) {
    const std::vector<at::Tensor> all =
        std::apply([&](auto&... each) { return weighted(std::vector<at::Tensor>{each...}); }, outputs);
    std::size_t next = 0;
    std::apply([&](auto&... each) { ((each = all[next++]), ...); }, outputs);
    return outputs;
  }

  Net net_;
  at::MemoryFormat images_;
  job::StepTurns turns_;
  model::ModuleModel model_;
  job::OwnLoop loop_;
};

}  // namespace taxon
