#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "model/model.h"

namespace taxon::model {

struct Loss {
  at::Tensor sum;  // over labels, differentiable
  std::array<double, kMostCounts> counts{};
  StepOutput output() const { return {sum.item<double>(), counts}; }
};

/// A loss of a program's own: the mean over the samples of a batch, one number, differentiable. `outputs`:
/// all that the network gave for them, of float32 where it computes in bfloat16. `targets`: as the data set
/// has them, [samples] or [samples, targets...]: int64, or real ones of the outputs' type.
using LossFunction = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;

/// The task's. `given`: [labels, classes], or [labels] for real targets.
Loss loss_of(const Task& task, const at::Tensor& given, const at::Tensor& labels);

}  // namespace taxon::model
