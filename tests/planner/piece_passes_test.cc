#include "planner/piece_passes.h"

#include <gmock/gmock.h>

#include "model/forwarding.h"
#include "model/profile_model.h"

namespace taxon::planner {
namespace {

/// Whose passes take a second for each sample that the member passes forward, and two backward, by a clock of
/// their own.
class ByTheClock final : public model::Staged {
 public:
  std::vector<model::Piece> all;

  void divide(const model::Division&) override {}
  const std::vector<model::Piece>& pieces() const override { return all; }
  void begin_step(const model::StepInput&) override {}
  void use_weights(std::size_t) override {}
  void forward(int piece, const model::MicroBatch& micro, ConstView input, View output) override {
    take(piece, micro, 1);
    seen.emplace_back(input.size(), output.size());
    if (!input.empty()) first_inputs.push_back(as_span<float>(input).front());
    if (!output.empty())
      std::fill_n(as_span<float>(output).begin(), output.size() / sizeof(float),
                  static_cast<float>(piece + 1));
  }
  void backward(int piece, const model::MicroBatch& micro, model::Gradients, ConstView, View, bool,
                tensor::Milestones&) override {
    take(piece, micro, 2);
  }
  model::StepOutput end_step() override { return {}; }
  void abandon_step() override {}
  model::StepOutput evaluate(int, data::Inputs, data::Values, ConstView, View) override { return {}; }

  std::vector<std::pair<std::size_t, std::size_t>> seen;  // bytes in and out of each piece
  std::vector<float> first_inputs;
  double now = 0;

 private:
  void take(int piece, const model::MicroBatch& micro, double seconds) {
    now +=
        seconds * static_cast<double>(all[static_cast<std::size_t>(piece)].own(micro.samples(), 2, 0).size);
  }
};

class Model final : public model::ForwardingModel {
 public:
  explicit Model(model::ModelSpec spec)
      : ForwardingModel(std::make_unique<model::ProfileModel>(std::move(spec), std::vector<int>())) {}
  model::Staged* staged() override { return &stages; }
  ByTheClock stages;
};

class NoMarks final : public tensor::Milestones {
  void reached(int) override {}
};

/// The first piece has two segments, of one and of three operations, and its part of the samples alone; the
/// second is the loss, of all of them.
TEST(PiecePasses, TimesAreOfAllSamplesAndOfSegmentsByTheirOperations) {
  constexpr std::int64_t kSamples = 4;
  model::ModelSpec spec;
  spec.members = 2;
  spec.segments = {{.name = "one", .forward_flops = 10}, {.name = "three", .forward_flops = 30}};
  Model model(spec);
  model.stages.all = {{.segments = {0, 2}, .outputs = 3, .by_samples = true},
                      {.segments = {2, 0}, .inputs = 5}};
  PiecePasses passes(model, kSamples, DType::Float32);
  const std::vector<float> labels(kSamples);
  model::StepInput input;
  input.labels = labels;
  NoMarks marks;
  const PiecePasses::Times times = passes.pass(
      input, [&] { return model.stages.now; }, marks);

  using testing::Pair;
  EXPECT_THAT(model.stages.seen,
              testing::ElementsAre(Pair(0, 2 * 3 * sizeof(float)), Pair(4 * 5 * sizeof(float), 0)));
  EXPECT_THAT(model.stages.first_inputs, testing::ElementsAre(1)) << "what the piece before left";
  // Two samples stand for four. The loss is the last segment's, which is passed with half of the samples.
  EXPECT_THAT(times.forward, testing::ElementsAre(1, 3 + 2 * 4));
  EXPECT_THAT(times.backward, testing::ElementsAre(2, 6 + 2 * 8));
}

}  // namespace
}  // namespace taxon::planner
