#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "model/model.h"
#include "model/torch/loss.h"
#include "plan/model_file.h"

namespace torch::nn {
class Module;
class SequentialImpl;
}  // namespace torch::nn

namespace taxon::model {

/// The forward pass of a module: of all tensors of a batch, and of the labels after them where it is to give
/// a loss. All tensors that it gives, of which the first counts, and a second one after a loss. On the
/// compute thread.
using OwnForward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// A module of a program's own as a Model of one segment. `module` outlives the model. Null `loss`: the
/// task's, or the module's own, as `returns` says. Throws as TorchModel, Error{Usage} where the module fails.
std::unique_ptr<Model> make_own_model(const ModelContext& context, torch::nn::Module& module,
                                      OwnForward forward, plan::ModelReturns returns, LossFunction loss);

/// The same of a torch::nn::Sequential, whose children with parameters or buffers are segments, which stages
/// and members can share. Throws Error{Usage} for samples of several tensors too.
std::unique_ptr<Model> make_own_model(const ModelContext& context, torch::nn::SequentialImpl& chain,
                                      LossFunction loss);

}  // namespace taxon::model
