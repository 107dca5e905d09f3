#include "model/torch/loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace taxon::model {
namespace {

double among(const at::Tensor& logits, const at::Tensor& labels, int most) {
  const at::Tensor hits =
      most == 1 ? logits.argmax(1).eq(labels) : std::get<1>(logits.topk(most, 1)).eq(labels.unsqueeze(1));
  return static_cast<double>(hits.sum().item<std::int64_t>());
}

constexpr std::int64_t kIgnored = -100;  // a label that nothing is made of, as in PyTorch

Loss cross_entropy(const Task& task, const at::Tensor& logits, const at::Tensor& labels) {
  Loss loss{at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, kIgnored,
                                   at::GradMode::is_enabled() ? task.label_smoothing : 0)};
  for (std::size_t i = 0; i < task.counts; ++i)
    loss.counts[i] = among(logits.detach(), labels, task.among[i]);
  return loss;
}

/// Of a label: the logarithm of the sum of exponentials, its own logit, the sum of logits, and the largest
/// logits with whether each is the label's.
at::Tensor cross_entropy_summary(const Task& task, const at::Tensor& logits, const at::Tensor& labels,
                                 std::int64_t first) {
  const std::int64_t classes = logits.size(1);
  const at::Tensor own = labels - first, others = (own < 0).logical_or(own >= classes);
  const at::Tensor of_label =
      logits.gather(1, own.masked_fill(others, 0).unsqueeze(1)).squeeze(1).masked_fill(others, 0);
  std::vector<at::Tensor> numbers = {logits.logsumexp(1), of_label, logits.sum(1)};
  const std::int64_t most = *std::max_element(task.among.begin(), task.among.end());
  const auto [largest, at] = logits.detach().topk(std::min(most, classes), 1);
  const at::Tensor hits = at.eq(own.unsqueeze(1));
  for (std::int64_t i = 0; i < most; ++i) {
    const bool is_there = i < classes;
    numbers.push_back(is_there ? largest.select(1, i)
                               : at::full_like(of_label, -std::numeric_limits<double>::infinity()).detach());
    numbers.push_back(is_there ? hits.select(1, i).to(logits.scalar_type()) : at::zeros_like(of_label));
  }
  return at::stack(numbers, 1);
}

Loss cross_entropy_of_summaries(const Task& task, const at::Tensor& summaries, const at::Tensor& labels,
                                std::int64_t classes) {
  const auto number = [&](std::int64_t i) { return summaries.select(2, i); };
  const double smoothing = at::GradMode::is_enabled() ? task.label_smoothing : 0;
  const at::Tensor all = number(0).logsumexp(1), of_label = number(1).sum(1);
  at::Tensor each = all - (1 - smoothing) * of_label;
  if (smoothing > 0) each = each - smoothing / static_cast<double>(classes) * number(2).sum(1);
  Loss loss{each.masked_fill(labels.eq(kIgnored), 0).sum()};
  // In the order of the classes, as far as logits are equal.
  const at::Tensor candidates = summaries.detach().slice(2, 3);
  const at::Tensor largest = candidates.slice(2, 0, {}, 2).flatten(1);
  const at::Tensor hits = candidates.slice(2, 1, {}, 2).flatten(1);
  for (std::size_t i = 0; i < task.counts; ++i)
    loss.counts[i] =
        hits.gather(1, std::get<1>(largest.topk(task.among[i], 1))).sum(at::kDouble).item<double>();
  return loss;
}

Loss squared_error(const Task&, const at::Tensor& given, const at::Tensor& targets) {
  const auto sum = [](const at::Tensor& values) { return values.sum(at::kDouble).item<double>(); };
  const at::Tensor error = given - targets.to(given.scalar_type()), wide = targets.to(at::kDouble);
  const at::Tensor squares = error.square();
  return {squares.sum(), {sum(squares.detach()), sum(error.detach().abs()), sum(wide), sum(wide.square())}};
}

struct LossRow {
  Loss (*of)(const Task&, const at::Tensor&, const at::Tensor&);
  // Of classes:
  at::Tensor (*summary)(const Task&, const at::Tensor&, const at::Tensor&, std::int64_t) = nullptr;
  Loss (*of_summaries)(const Task&, const at::Tensor&, const at::Tensor&, std::int64_t) = nullptr;
};
constexpr LossRow kLosses[] = {{cross_entropy, cross_entropy_summary, cross_entropy_of_summaries},
                               {squared_error}};

const LossRow& row_of(const Task& task) { return kLosses[static_cast<std::size_t>(task.loss)]; }

}  // namespace

Loss loss_of(const Task& task, const at::Tensor& given, const at::Tensor& labels) {
  return row_of(task).of(task, given, labels);
}

at::Tensor summary_of_classes(const Task& task, const at::Tensor& logits, const at::Tensor& labels,
                              std::int64_t first) {
  TAXON_CHECK(row_of(task).summary, "the loss of task ", task.name, " has no classes");
  return row_of(task).summary(task, logits, labels, first);
}

Loss loss_of_summaries(const Task& task, const at::Tensor& summaries, const at::Tensor& labels,
                       std::int64_t classes) {
  TAXON_CHECK(row_of(task).of_summaries, "the loss of task ", task.name, " has no classes");
  return row_of(task).of_summaries(task, summaries, labels, classes);
}

}  // namespace taxon::model
