// Rows of a program's own reach the training that names them.
#include "train/toy_job.h"

namespace taxon::test {
namespace {

/// Every tensor moves by the rate, along its gradient (normalised SGD by tensors).
class ByLength final : public optim::Rule {
 public:
  explicit ByLength(const optim::RuleContext& context) : tensors_(context.tensors) {}
  void update(const tensor::Arena& weights, const tensor::Arena& sum, optim::UpdateRange place,
              const optim::StepClock& clock) override {
    for (const Range& tensor : tensors_) {
      if (tensor.begin < place.weights.begin || tensor.end() > place.weights.end()) continue;
      const optim::UpdateRange at = place.of(tensor);
      auto w = weights.values<double>(at.weights), g = sum.values<double>({at.sum, tensor.size});
      double square = 0;
      for (double value : g) square += value * value;
      if (square == 0) continue;
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= clock.rate * g[i] / std::sqrt(square);
    }
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return {}; }

 private:
  std::vector<Range> tensors_;
};

constexpr optim::RuleRow kRules[] = {
    {.name = "by_length",
     .make = [](const plan::OptimiserPlan&, const optim::RuleContext& context)
         -> std::unique_ptr<optim::Rule> { return std::make_unique<ByLength>(context); },
     .by_tensor = true}};
constexpr optim::ScheduleRow kOwnSchedules[] = {
    {.name = "linear", .make = [](const plan::RatePlan&, double total) -> std::function<double(double)> {
       return [total](double samples) { return 1 - samples / total; };
     }}};

class OwnRows : public Train {};

TEST_F(OwnRows, SeeWholeTensorsHoweverManyRanksAndWhateverSlices) {
  plan::Plan plan = toy_plan();
  plan.optimiser.rule = "by_length";
  plan.learning_rate = {.base = 0.1, .schedule = "linear"};
  TrainingJob one = job(1, plan);
  one.own = {.rules = kRules, .schedules = kOwnSchedules};
  const TrainingResult expected = run_training(one);
  EXPECT_GT(expected.outcomes[0].test.scores["accuracy"], 0.8);
  EXPECT_EQ(expected.recorders[0].steps.front().rate, 0.1);
  EXPECT_LT(expected.recorders[0].steps.back().rate, 0.1 / 40);  // of 50 steps
  for (std::int64_t slices : {64, 4 << 20}) {
    TrainingJob four = job(4, plan);
    four.own = one.own;
    four.plan.exchange.slice_bytes = slices;
    EXPECT_LT(relative_distance(expected.parameters, run_training(four).parameters), 1e-9) << slices;
  }
}

/// Larger ones than what an update is cut into, and two in one bucket.
TEST_F(OwnRows, SeeWholeTensorsHoweverLargeTheyAre) {
  constexpr int kWide = 66000;  // 396,000 and 198,000 weights
  for (const plan::Overlap overlap : {plan::Overlap::Backward, plan::Overlap::Forward}) {
    plan::Plan plan = toy_plan();
    plan.optimiser.rule = "by_length";
    plan.learning_rate = {.base = 0.1, .schedule = "constant"};
    plan.length.steps = 1;
    plan.evaluation.every_epochs = 0;
    plan.exchange.bucket_bytes = 16 << 20;
    plan.exchange.overlap = overlap;
    const model::PerceptronOptions options{.shape = datasets_.train->shape(), .hidden = kWide};
    TrainingJob wide = job(1, plan);
    wide.own = {.rules = kRules};
    wide.make_model = [&](int) { return std::make_unique<model::Perceptron>(options); };
    const model::Perceptron begun(options);
    const std::vector<double> before = begun.parameters(), after = run_training(wide).parameters;
    std::size_t at = 0;
    for (const model::ParameterSpec& parameter : begun.spec().parameters) {
      double square = 0;
      for (std::int64_t i = 0; i < parameter.count(); ++i, ++at)
        square += (after[at] - before[at]) * (after[at] - before[at]);
      EXPECT_NEAR(std::sqrt(square), 0.1, 1e-9) << parameter.name;
    }
  }
}

/// Whoever reads no recipe with them hears of it from the run.
TEST_F(OwnRows, WithoutAFunctionEndTheRunWithASentence) {
  const parallel::LayerKind kinds[] = {{.name = "mine", .splits = {"none"}}};
  TrainingJob lacking = job(2, toy_plan());
  lacking.own = {.layer_kinds = kinds};
  try {
    run_training(lacking);
    ADD_FAILURE() << "a kind that has no layers was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_NE(std::string(error.what()).find("layer_kinds: row \"mine\" lacks its member has"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace taxon::test
