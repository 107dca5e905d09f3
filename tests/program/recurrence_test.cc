// Programs carried out on a model of one weight a stage: what comes out is what each schedule promises.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "program/check.h"
#include "program/schedule.h"
#include "program/shapes.h"

namespace taxon::program {
namespace {

constexpr double kRate = 0.05;

/// Stage s makes tanh(w_s x); the loss is half the square of what is missing to the target.
double input_of(int micro) { return 0.3 + 0.1 * (micro % 7); }
double target_of(int micro) { return 0.9 - 0.2 * (micro % 5); }
double first_weight(int stage) { return 0.8 + 0.07 * stage; }

/// Carries out a program, as an executor does: lists in order, messages between ranks, versions of weights.
class Interpreter {
 public:
  explicit Interpreter(const Program& program)
      : program_(program), next_(program.ranks.size(), 0), stages_(static_cast<std::size_t>(program.stages)) {
    for (int s = 0; s < program.stages; ++s) at(s).versions = {{0, first_weight(s)}};
  }

  std::vector<double> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank)
        while (next_[rank] < program_.ranks[rank].size() && take(program_.ranks[rank][next_[rank]])) {
          ++next_[rank];
          moved = true;
        }
    }
    std::vector<double> weights;
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      EXPECT_EQ(next_[rank], program_.ranks[rank].size()) << "rank " << rank;
    for (const Stage& stage : stages_) weights.push_back(stage.versions.rbegin()->second);
    return weights;
  }

 private:
  struct Stage {
    std::map<int, double> versions;
    std::map<int, double> inputs, outputs, output_gradients, input_gradients;  // by micro-batch
    double gradient = 0;  // of the weight, since the last update
    int counted = 0;
  };
  Stage& at(int stage) { return stages_[static_cast<std::size_t>(stage)]; }

  /// False: a message is missing.
  bool take(const Action& action) {
    Stage& stage = at(action.stage);
    const int micro = action.micro;
    switch (action.kind) {
      case ActionKind::Forward: {
        double& x = stage.inputs[micro];
        if (action.stage == 0)
          x = input_of(micro);
        else if (program_.rank_at(action.stage - 1) == program_.rank_at(action.stage))
          x = at(action.stage - 1).outputs.at(micro);
        stage.outputs[micro] = std::tanh(stage.versions.at(action.version) * x);
        return true;
      }
      case ActionKind::Backward:
        backward_input(action, stage);
        backward_weight(action, stage);
        return true;
      case ActionKind::BackwardInput:
        backward_input(action, stage);
        return true;
      case ActionKind::BackwardWeight:
        backward_weight(action, stage);
        return true;
      case ActionKind::SendActivation:
        messages_[{action.kind, action.stage, micro}] = stage.outputs.at(micro);
        return true;
      case ActionKind::SendGradient:
        messages_[{action.kind, action.stage, micro}] = stage.input_gradients.at(micro);
        return true;
      case ActionKind::ReceiveActivation:
        return receive(action, stage.inputs);
      case ActionKind::ReceiveGradient:
        return receive(action, stage.output_gradients);
      case ActionKind::Exchange:
        return true;  // there are no replicas
      case ActionKind::Update: {
        const double newest = stage.versions.rbegin()->second;
        stage.versions[action.version] = newest - kRate * stage.gradient / stage.counted;
        stage.gradient = stage.counted = 0;
        return true;
      }
    }
    return false;
  }

  bool receive(const Action& action, std::map<int, double>& into) {
    const Action sent = counterpart(action);
    const auto found = messages_.find({sent.kind, sent.stage, sent.micro});
    if (found == messages_.end()) return false;
    into[action.micro] = found->second;
    return true;
  }

  void backward_input(const Action& action, Stage& stage) {
    const double y = stage.outputs.at(action.micro);
    double& gradient = stage.output_gradients[action.micro];
    if (program_.is_last(action.stage))
      gradient = y - target_of(action.micro);
    else if (program_.rank_at(action.stage + 1) == program_.rank_at(action.stage))
      gradient = at(action.stage + 1).input_gradients.at(action.micro);
    stage.input_gradients[action.micro] = gradient * (1 - y * y) * stage.versions.at(action.version);
  }

  void backward_weight(const Action& action, Stage& stage) {
    const double y = stage.outputs.at(action.micro);
    stage.gradient += stage.output_gradients.at(action.micro) * (1 - y * y) * stage.inputs.at(action.micro);
    ++stage.counted;
  }

  const Program& program_;
  std::vector<std::size_t> next_;
  std::vector<Stage> stages_;
  std::map<std::tuple<ActionKind, int, int>, double> messages_;
};

/// The gradient of one micro-batch with these weights: the definition, in one place.
std::vector<double> gradient(const std::vector<double>& weights, int micro) {
  std::vector<double> inputs, outputs;
  double x = input_of(micro);
  for (double w : weights) {
    inputs.push_back(x);
    outputs.push_back(x = std::tanh(w * x));
  }
  std::vector<double> all(weights.size());
  double back = x - target_of(micro);
  for (std::size_t s = weights.size(); s-- > 0;) {
    const double slope = back * (1 - outputs[s] * outputs[s]);
    all[s] = slope * inputs[s];
    back = slope * weights[s];
  }
  return all;
}

std::vector<double> first_weights(int stages) {
  std::vector<double> weights;
  for (int s = 0; s < stages; ++s) weights.push_back(first_weight(s));
  return weights;
}

void expect_equal(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t s = 0; s < found.size(); ++s) EXPECT_NEAR(found[s], expected[s], 1e-14) << "stage " << s;
}

TEST(Recurrence, OfWhatFlushesIsOneProcess) {
  for (const ScheduleRow& row : schedule_table()) {
    if (!row.flushes) continue;
    for (const Shape& shape : shapes_of(row)) {
      SCOPED_TRACE(std::string(row.name) + fmt::format(" {} {}", shape.stages, shape.micros));
      std::vector<double> weights = first_weights(shape.stages), sum(weights.size());
      for (int micro = 0; micro < shape.micros; ++micro) {
        const std::vector<double> one = gradient(weights, micro);
        for (std::size_t s = 0; s < sum.size(); ++s) sum[s] += one[s];
      }
      for (std::size_t s = 0; s < sum.size(); ++s) weights[s] -= kRate * sum[s] / shape.micros;
      expect_equal(Interpreter(make_program(row, shape)).run(), weights);
    }
  }
}

/// w_s(t + 1) = w_s(t) - rate gradient_s(w_0(t - delay_0), w_1(t - delay_1), ...), with w(t) = w(0) for t <
/// 0.
std::vector<double> delayed(int stages, int updates, int micros_per_update, const std::vector<int>& delays) {
  std::vector<std::vector<double>> history = {first_weights(stages)};
  for (int t = 0; t < updates; ++t) {
    std::vector<double> used, sum(static_cast<std::size_t>(stages)), next = history.back();
    for (std::size_t s = 0; s < next.size(); ++s)
      used.push_back(history[static_cast<std::size_t>(std::max(0, t - delays[s]))][s]);
    for (int micro = t * micros_per_update; micro < (t + 1) * micros_per_update; ++micro) {
      const std::vector<double> one = gradient(used, micro);
      for (std::size_t s = 0; s < sum.size(); ++s) sum[s] += one[s];
    }
    for (std::size_t s = 0; s < next.size(); ++s) next[s] -= kRate * sum[s] / micros_per_update;
    history.push_back(next);
  }
  return history.back();
}

TEST(Recurrence, OfPipeDreamIsItsPapers) {
  for (int p : {1, 2, 3, 5}) {
    std::vector<int> stashed, synced;
    for (int s = 0; s < p; ++s) {
      stashed.push_back(p - 1 - s);
      synced.push_back(p - 1);
    }
    const ScheduleRow& row = find_schedule("pipedream");
    expect_equal(Interpreter(make_program(row, {p, 20})).run(), delayed(p, 20, 1, stashed));
    expect_equal(Interpreter(make_program(row, {p, 20}, {{"vertical_sync", true}})).run(),
                 delayed(p, 20, 1, synced));
  }
}

TEST(Recurrence, Of2BWIsOneUpdateLate) {
  for (int p : {1, 2, 4}) {
    const Program program =
        make_program(find_schedule("pipedream_2bw"), {p, 5 * (p + 1)}, {{"micros_per_update", p + 1}});
    expect_equal(Interpreter(program).run(),
                 delayed(p, 5, p + 1, std::vector<int>(static_cast<std::size_t>(p), 1)));
  }
}

TEST(Recurrence, TellsDelaysApart) {
  const auto two = delayed(3, 20, 1, {2, 2, 2}), stashed = delayed(3, 20, 1, {2, 1, 0});
  EXPECT_GT(std::abs(two[2] - stashed[2]), 1e-6);
}

}  // namespace
}  // namespace taxon::program
