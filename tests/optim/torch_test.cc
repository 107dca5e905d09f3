#include <gtest/gtest.h>

#include <array>
#include <string>

#include "optim/rule.h"

namespace taxon::optim {
namespace {

constexpr std::size_t kTorchSize = 4;

/// What PyTorch 1.13.1 computed:
///
///   def run(make, steps=4):
///       w = torch.tensor([0.5, -1.25, 2.0, -0.0625], dtype=torch.float32, requires_grad=True)
///       o = make([w])
///       for t in range(steps):
///           w.grad = torch.tensor([0.125, -0.5, 0.0078125, 1.5]) * (t - 1.5)
///           o.step()
///       return [x.hex() for x in w.tolist()]
///   run(lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01))
///   run(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01))
///   run(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True))
///   run(lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01))
struct Recorded {
  const char* rule;
  std::array<float, kTorchSize> weights;
};
constexpr Recorded kRecorded[] = {
    {"sgd", {0x1.fde42p-2F, -0x1.3ea872p+0F, 0x1.fdf43ep+0F, -0x1.020be8p-4F}},
    {"momentum", {0x1.17990ap-1F, -0x1.70ee2cp+0F, 0x1.fc2f06p+0F, 0x1.1738040p-1F}},
    {"nesterov", {0x1.1416aep-1F, -0x1.6a8094p+0F, 0x1.fa8640p+0F, 0x1.ed4dcap-2F}},
    {"adamw", {0x1.6f7edcp-1F, -0x1.76fb20p+0F, 0x1.1b1b66p+1F, 0x1.42954ap-3F}},
};

std::unique_ptr<Rule> make(const std::string& name, const plan::OptimiserPlan& plan) {
  for (const RuleRow& row : rule_table())
    if (row.name == name) return row.make(plan, {DType::Float32, kTorchSize, {{0, kTorchSize}}});
  return nullptr;
}

TEST(RecordedRules, GivePyTorchsNumbers) {
  constexpr std::array<float, kTorchSize> kStart = {0.5F, -1.25F, 2.0F, -0.0625F};
  constexpr std::array<float, kTorchSize> kGradient = {0.125F, -0.5F, 0.0078125F, 1.5F};
  for (const Recorded& recorded : kRecorded) {
    plan::OptimiserPlan plan;
    plan.weight_decay = 0.01;
    auto rule = make(recorded.rule, plan);
    ASSERT_NE(rule, nullptr) << recorded.rule;
    tensor::Arena weights(DType::Float32, kTorchSize), sum(DType::Float32, kTorchSize);
    auto w = weights.values<float>({0, kTorchSize}), g = sum.values<float>({0, kTorchSize});
    std::copy(kStart.begin(), kStart.end(), w.begin());
    for (int step = 0; step < 4; ++step) {
      for (std::size_t i = 0; i < kTorchSize; ++i) g[i] = kGradient[i] * (static_cast<float>(step) - 1.5F);
      rule->update(weights, sum, UpdateRange::same({0, kTorchSize}), {step, 0, 0.1, 1});
    }
    // A few roundings of float32 apart: the order of the operations is not PyTorch's.
    for (std::size_t i = 0; i < kTorchSize; ++i)
      EXPECT_NEAR(w[i], recorded.weights[i], 1e-6F) << recorded.rule << " " << i;
  }
}

}  // namespace
}  // namespace taxon::optim
