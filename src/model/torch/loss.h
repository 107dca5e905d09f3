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

/// Where each member of a tensor axis has the logits of its classes alone, what the others need of them are a
/// few numbers of each label (Megatron-LM: Shoeybi et al., arXiv 1909.08053): [labels, numbers],
/// differentiable, of logits [labels, own classes], the classes from `first` on. REQUIRES: a task of classes.
at::Tensor summary_of_classes(const Task& task, const at::Tensor& logits, const at::Tensor& labels,
                              std::int64_t first);
/// The task's, of all members' summaries, [labels, members, numbers], of so many classes in all.
Loss loss_of_summaries(const Task& task, const at::Tensor& summaries, const at::Tensor& labels,
                       std::int64_t classes);

}  // namespace taxon::model
