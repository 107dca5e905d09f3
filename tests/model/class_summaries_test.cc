// A loss over parts of the classes is that of all of them: its sum, its gradient and what is counted.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/torch/loss.h"

namespace taxon::model {
namespace {

constexpr std::int64_t kLabels = 40, kClasses = 12;

struct Made {
  Loss loss;
  at::Tensor gradient;
};

Made of_all(const Task& task, at::Tensor logits, const at::Tensor& labels) {
  logits = logits.detach().requires_grad_(true);
  Loss loss = loss_of(task, logits, labels);
  at::Tensor gradient = torch::autograd::grad({loss.sum}, {logits})[0];
  return {std::move(loss), std::move(gradient)};
}

/// By members, who see each other's summaries alone.
Made of_parts(const Task& task, const at::Tensor& logits, const at::Tensor& labels, std::int64_t members) {
  std::vector<at::Tensor> parts, summaries, gradients;
  for (const at::Tensor& part : logits.chunk(members, 1)) {
    const auto first = static_cast<std::int64_t>(parts.size()) * part.size(1);
    parts.push_back(part.detach().requires_grad_(true));
    summaries.push_back(summary_of_classes(task, parts.back(), labels, first));
  }
  const at::Tensor seen = at::stack(summaries, 1).detach().requires_grad_(true);
  Loss loss = loss_of_summaries(task, seen, labels, kClasses);
  const at::Tensor given = torch::autograd::grad({loss.sum}, {seen})[0];
  for (std::size_t m = 0; m < parts.size(); ++m)
    gradients.push_back(torch::autograd::grad({summaries[m]}, {parts[m]},
                                              {given.select(1, static_cast<std::int64_t>(m))})[0]);
  return {std::move(loss), at::cat(gradients, 1)};
}

TEST(ClassSummaries, GiveTheLossOfAllClasses) {
  // Of all magnitudes: exponentials of the largest have no number in double precision.
  const at::Tensor values = at::arange(kLabels * kClasses, at::kDouble).view({kLabels, kClasses});
  const at::Tensor logits =
      (values * 12.9898).sin() * at::arange(kLabels, at::kDouble).view({-1, 1}).exp2().sqrt();
  at::Tensor labels = at::arange(kLabels, at::kLong).mul(7).remainder(kClasses);
  labels[3] = labels[4] = -100;  // of nothing
  Task task{.counts = 2, .among = {1, 5}};
  for (double smoothing : {0.0, 0.2})
    for (std::int64_t members : {1, 2, 3, 4, 12}) {
      SCOPED_TRACE(testing::Message() << smoothing << ", " << members << " members");
      task.label_smoothing = smoothing;
      const Made whole = of_all(task, logits, labels), made = of_parts(task, logits, labels, members);
      const auto sum = whole.loss.sum.item<double>();
      EXPECT_GT(sum, 1e3);
      EXPECT_NEAR(made.loss.sum.item<double>(), sum, 1e-13 * sum);
      EXPECT_TRUE(made.gradient.allclose(whole.gradient, /*rtol=*/1e-12, /*atol=*/1e-14));
      EXPECT_EQ(made.loss.counts, whole.loss.counts);
      EXPECT_GT(whole.loss.counts[1], whole.loss.counts[0]);
    }
}

TEST(ClassSummaries, AreOfTheTaskWithoutCounts) {
  const at::Tensor logits = at::arange(2 * kClasses, at::kFloat).view({2, kClasses}).sin();
  const at::Tensor labels = at::arange(2, at::kLong);
  const Made whole = of_all({}, logits, labels), made = of_parts({}, logits, labels, 4);
  EXPECT_NEAR(made.loss.sum.item<double>(), whole.loss.sum.item<double>(), 1e-6);
}

}  // namespace
}  // namespace taxon::model
