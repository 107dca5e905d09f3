#include "model/torch/loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace taxon::model {
namespace {

double among(const at::Tensor& logits, const at::Tensor& labels, int most) {
  const at::Tensor hits =
      most == 1 ? logits.argmax(1).eq(labels) : std::get<1>(logits.topk(most, 1)).eq(labels.unsqueeze(1));
  return static_cast<double>(hits.sum().item<std::int64_t>());
}

Loss cross_entropy(const Task& task, const at::Tensor& logits, const at::Tensor& labels) {
  Loss loss{at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, /*ignore_index=*/-100,
                                   at::GradMode::is_enabled() ? task.label_smoothing : 0)};
  for (std::size_t i = 0; i < task.counts; ++i)
    loss.counts[i] = among(logits.detach(), labels, task.among[i]);
  return loss;
}

Loss squared_error(const Task&, const at::Tensor& given, const at::Tensor& targets) {
  const auto sum = [](const at::Tensor& values) { return values.sum(at::kDouble).item<double>(); };
  const at::Tensor error = given - targets.to(given.scalar_type()), wide = targets.to(at::kDouble);
  const at::Tensor squares = error.square();
  return {squares.sum(), {sum(squares.detach()), sum(error.detach().abs()), sum(wide), sum(wide.square())}};
}

constexpr Loss (*kLosses[])(const Task&, const at::Tensor&, const at::Tensor&) = {cross_entropy,
                                                                                  squared_error};

}  // namespace

Loss loss_of(const Task& task, const at::Tensor& given, const at::Tensor& labels) {
  return kLosses[static_cast<std::size_t>(task.loss)](task, given, labels);
}

}  // namespace taxon::model
