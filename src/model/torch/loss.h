#pragma once

#include <ATen/core/Tensor.h>

#include "model/model.h"

namespace taxon::model {

struct Loss {
  at::Tensor sum;  // over labels, differentiable
  std::array<double, kMostCounts> counts{};
  StepOutput output() const { return {sum.item<double>(), counts}; }
};

/// The task's. `given`: [labels, classes], or [labels] for real targets.
Loss loss_of(const Task& task, const at::Tensor& given, const at::Tensor& labels);

}  // namespace taxon::model
