#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <concepts>
#include <type_traits>
#include <utility>

#include "job/notices.h"
#include "model/torch/own_forward.h"
#include "taxon/train.h"

/// Training of a program's own torch::nn::Module as a rank of a job, as `taxon train` trains a bundled model.
/// Needs libtorch's headers. Whoever wants the loop to himself takes taxon/data_parallel.h.
///
///     torch::nn::Sequential net(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
///     train(job, net, [](const auto& outputs, const auto& targets) { return torch::mse_loss(outputs,
///     targets); },
///           data);
///
/// train() is found by its first argument. `net`: a holder made by TORCH_MODULE, a pointer to a module, or a
/// module. Its forward() takes a batch of each tensor that a sample has, [samples, extents...]: numbers of
/// the plan's precision.compute, int64 tokens, flags of type bool. What it gives, or the first tensor of a
/// vector or tuple, is the loss's. All ranks bring the same module; of its weights rank 0's count. In
/// training mode, and in evaluation mode for tests, as torch::nn::Module::train() sets it.
///
/// What the plan says of a model is not looked at but for `frozen` and `memory_format`; all else holds: any
/// exchange, micro-batches, checkpoints. A torch::nn::Sequential is divided too, over stages (mesh.pipeline),
/// members (mesh.tensor, mesh.splits) and shards of weights: its children are what the recipe calls layers,
/// by their names ("0", "1", ...). Linear and Conv2d without groups can be split, batch norms with them;
/// other children are one piece. A module of another class is one piece whole.
///
/// forward() and the loss are called on a thread of the run's, one after the other. During the run the
/// module's parameters are views of memory that updates live in. Afterwards they are its own again, trained,
/// on every rank; of a run that divides the module a rank has its part, and `model.safetensors` of the run's
/// folder has all. Floating-point tensors of the module are of precision.compute then. Parameters that a step
/// does not use have a gradient of zero.
namespace taxon {

using model::LossFunction;

/// In place of a loss: forward() takes the targets after its inputs, and gives the mean loss over the samples
/// of the batch, alone or before outputs, of which the task makes its scores.
struct ReturnsLoss {};
inline constexpr ReturnsLoss returns_loss;

template <class T>
concept ModuleClass = std::derived_from<std::remove_cvref_t<T>, torch::nn::Module>;
template <class Net>
concept OwnModule = ModuleClass<Net> || requires(Net& net) {
  { *net } -> ModuleClass;
};

namespace job {

template <OwnModule Net>
auto& module_of(Net& net) {
  if constexpr (ModuleClass<Net>)
    return net;
  else
    return *net;
}

/// With a loss of the program's own (LossFunction says what it is given). Where outputs are logits, or the
/// numbers of a regression, the task's scores are reported beside it; otherwise the loss is alone, and the
/// data need fit no task. Null: the task's loss. Collective over all ranks; throws as train() of a model, and
/// Error{Usage} where the module or the loss fails, or gives what it should not.
template <OwnModule Net>
train::Outcome train(Job& job, Net&& net, LossFunction loss, const data::Datasets& data,
                     train::Observer& observer, train::TrainOptions options = {}) {
  auto& module = module_of(net);
  const ModelMaker make = [&](const model::ModelContext& context) {
    if constexpr (std::same_as<decltype(module), torch::nn::SequentialImpl&>)
      return model::make_own_model(context, module, std::move(loss));
    else
      return model::make_own_model(context, module, model::own_forward(module), plan::ModelReturns::Logits,
                                   std::move(loss));
  };
  return train_made(job, make, data, observer, std::move(options));
}

/// With the loss that the module gives.
template <OwnModule Net>
train::Outcome train(Job& job, Net&& net, ReturnsLoss, const data::Datasets& data, train::Observer& observer,
                     train::TrainOptions options = {}) {
  auto& module = module_of(net);
  const ModelMaker make = [&](const model::ModelContext& context) {
    return model::make_own_model(context, module, model::own_forward(module), plan::ModelReturns::Loss,
                                 nullptr);
  };
  return train_made(job, make, data, observer, std::move(options));
}

/// With either loss, or the task's, for nobody to follow: notices go where the job's lines go.
template <OwnModule Net, class Loss>
train::Outcome train(Job& job, Net&& net, Loss loss, const data::Datasets& data) {
  Notices notices(job.options());
  return train(job, net, std::move(loss), data, notices);
}
template <OwnModule Net>
train::Outcome train(Job& job, Net&& net, const data::Datasets& data) {
  return train(job, net, LossFunction(), data);
}
template <OwnModule Net>
train::Outcome train(Job& job, Net&& net, const data::Datasets& data, train::Observer& observer,
                     train::TrainOptions options = {}) {
  return train(job, net, LossFunction(), data, observer, std::move(options));
}

}  // namespace job
}  // namespace taxon
