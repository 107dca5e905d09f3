// Training that costs what a profile says: the shape of a large model, without its memory.
#include "model/profile_model.h"

#include <gmock/gmock.h>

#include "model/cost.h"
#include "sim/world.h"
#include "support/clusters.h"
#include "support/training.h"

namespace taxon::test {
namespace {

/// Samples that nobody looks at.
class Blank final : public data::Dataset {
 public:
  explicit Blank(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const data::SampleShape& shape() const override { return shape_; }
  void read(std::span<const std::int64_t>, std::span<float> inputs,
            std::span<std::int64_t> labels) const override {
    std::fill(inputs.begin(), inputs.end(), 0.0F);
    std::fill(labels.begin(), labels.end(), 0);
  }

 private:
  std::int64_t size_;
  data::SampleShape shape_{{1}, 1};
};

/// Two segments of 8 samples a pass: 4 and 2 ms forward, 6 and 8 ms backward.
plan::ModelProfile two_segments() {
  plan::ModelProfile profile;
  profile.model = "two";
  profile.batch = 8;
  profile.input = {1};
  profile.buffers = {3};
  profile.segments = {
      {"low", 4e-3, 6e-3, 0, 0, {{"low.weight", {1000}}}},
      {"high", 2e-3, 8e-3, 0, 0, {{"high.weight", {600}, true, 2e-3, 6e-3}, {"high.bias", {10}}}}};
  return profile;
}

TEST(ProfileModel, HasTheProfilesShapeAndOrder) {
  auto profile = two_segments();
  const model::ModelSpec spec = model::spec_of(profile);
  EXPECT_EQ(spec.parameter_count(), 1610);
  EXPECT_EQ(model::gradient_order_of(profile, spec), (std::vector<int>{2, 1, 0}));
  profile.completion = {"high.weight", "low.weight", "high.bias"};
  EXPECT_EQ(model::gradient_order_of(profile, spec), (std::vector<int>{1, 0, 2}));
}

TEST(ProfileModel, CostsAreOfTheSamplesAndMarksWhereGradientsComplete) {
  const model::ModelSpec spec = model::spec_of(two_segments());
  EXPECT_EQ(model::forward_cost(spec, 4, 0, 1).measured, from_seconds(2e-3));
  EXPECT_EQ(model::forward_cost(spec, 8, 0.25, 1.5).measured, from_seconds(0.75 * 4e-3 + 0.5 * 2e-3));
  tensor::ArenaLayout layout(DType::Float32);
  model::Binding binding;
  for (int parameter : {2, 1, 0}) {
    const auto& each = spec.parameters[static_cast<std::size_t>(parameter)];
    layout.add(each.name, each.shape);
    binding.parameters.push_back(parameter);
  }
  binding.layout = &layout;
  const auto slots = layout.slots();
  for (Range range :
       {slots[0].range, {slots[1].range.begin, 300}, {slots[1].range.begin + 300, 300}, slots[2].range})
    binding.buckets.push_back({range, range});
  const std::vector<std::int64_t> labels(8);
  const model::StepCost whole = model::step_cost(spec, {{}, labels, 8, 1}, 0, binding);
  EXPECT_EQ(whole.cost.measured, from_seconds(20e-3));
  std::vector<double> ms;
  for (double share : whole.bucket_shares) ms.push_back(share * 20);
  using testing::DoubleNear;
  // The bias with its segment, the weight's halves between 2 and 6 ms of the backward pass.
  EXPECT_THAT(ms, testing::ElementsAre(DoubleNear(6 + 8, 1e-9), DoubleNear(6 + 4, 1e-9),
                                       DoubleNear(6 + 6, 1e-9), DoubleNear(20, 1e-9)));
  // In two micro-batches, the first of which has come through the first segment already.
  const model::StepCost rest = model::step_cost(spec, {{}, labels, 8, 2}, 1, binding);
  EXPECT_EQ(rest.cost.measured, from_seconds(18e-3));
  EXPECT_NEAR(rest.bucket_shares[1] * 18, 18 - 7 + 2, 1e-9);
  EXPECT_EQ(model::step_cost(spec, {{}, labels, 8, 2}, 1.5, binding).cost.measured, from_seconds(17.5e-3));
}

std::size_t resident_bytes() {
  std::size_t pages = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    EXPECT_EQ(std::fscanf(file, "%zu %zu", &pages, &resident), 2);
    std::fclose(file);
  }
  return resident * 4096;
}

/// Each rank trains the profile's model; rank 0's reports are kept.
struct Fleet {
  plan::Plan plan;
  plan::ModelProfile profile;
  data::Datasets datasets;
  Recorder recorder, others;
  std::size_t largest_memory = 0;
  std::vector<std::uint64_t> hashes;

  static task::Task<void> train_rank(Fleet* fleet, comm::Runtime* doors) {
    model::ModelSpec spec = model::spec_of(fleet->profile);
    auto order = model::gradient_order_of(fleet->profile, spec);
    model::ProfileModel model(std::move(spec), std::move(order));
    data::MemoryStorage none;
    const bool first = doors->rank() == Rank(0);
    train::TrainContext world{*doors, model, fleet->datasets, none, first ? fleet->recorder : fleet->others};
    train::TrainOptions options{.plan = fleet->plan};
    auto training = train::train(world, options);
    train::Outcome outcome = co_await training;
    fleet->largest_memory = std::max(fleet->largest_memory, resident_bytes());
    fleet->hashes.push_back(outcome.parameter_hash);
  }
};

std::unique_ptr<Fleet> make_fleet(plan::ModelProfile profile, int steps) {
  auto fleet = std::make_unique<Fleet>();
  fleet->profile = std::move(profile);
  fleet->datasets = {std::make_unique<Blank>(100000), std::make_unique<Blank>(1)};
  fleet->plan.batch.per_worker = 8;
  fleet->plan.length.steps = steps;
  fleet->plan.evaluation.every_epochs = 0;
  return fleet;
}

TEST(ProfileModel, AHundredMillionParametersOn128RanksNeedLittleMemory) {
  plan::ModelProfile profile = two_segments();
  profile.segments[0].parameters[0].shape = {100'000'000};
  profile.segments[1].parameters[0].shape = {33'000'000};
  auto fleet = make_fleet(std::move(profile), 2);
  fleet->plan.exchange.bucket_bytes = fleet->plan.exchange.slice_bytes = 256 << 20;
  fleet->plan.exchange.levels[0].collective = "tree";
  const std::size_t before = resident_bytes();
  sim::World world(separate_hosts(128), 128, {.fidelity = sim::Fidelity::Timing});
  const sim::Report report =
      world.run([&](comm::Runtime& doors) { return Fleet::train_rank(fleet.get(), &doors); });
  ASSERT_FALSE(report.failure);
  EXPECT_EQ(fleet->recorder.steps.size(), 2u);
  // Weights, gradients and momentum of one rank alone would be 1.6 GB.
  EXPECT_EQ(fleet->recorder.info.arenas.total(), std::size_t{3} * 4 * (133'000'000 + 16));
  EXPECT_LT(fleet->largest_memory - before, std::size_t{400} << 20);
}

TEST(ProfileModel, RunsWhereBodiesRun) {
  auto fleet = make_fleet(two_segments(), 3);
  sim::World world(separate_hosts(3), 3);
  const sim::Report report =
      world.run([&](comm::Runtime& doors) { return Fleet::train_rank(fleet.get(), &doors); });
  ASSERT_FALSE(report.failure);
  EXPECT_EQ(fleet->hashes[0], fleet->hashes[2]);
  EXPECT_EQ(fleet->recorder.steps.back().loss, 0);
}

/// Rank 0 has the first and the third of four stages. The third's weights are on their way for longer than
/// both micro-batches take through the first, whose own travel before them.
TEST(ProfileModel, APieceWaitsForItsOwnWeightsAlone) {
  plan::ModelProfile profile = two_segments();
  profile.segments.clear();
  for (const auto& [name, weights] : {std::pair("a", 10), {"b", 10}, {"c", 2000}, {"d", 10}})
    profile.segments.push_back({name, 4e-3, 4e-3, 0, 0, {{std::string(name) + ".weight", {weights}}}, 1});
  auto cluster = separate_hosts(4);
  cluster.hosts[0].network.bandwidth = 1e5;  // 80 ms for the third's
  const auto time_of_a_step = [&](plan::Overlap overlap) {
    auto fleet = make_fleet(profile, 4);
    fleet->plan.batch = {.global = 16, .micro_batches = 2};
    fleet->plan.mesh.pipeline = 2;
    fleet->plan.pipeline.schedule = "interleaved";
    fleet->plan.exchange.overlap = overlap;
    fleet->plan.exchange.order = plan::BucketOrder::Priority;
    fleet->plan.exchange.slice_bytes = 1024;
    fleet->plan.exchange.in_flight = 1;
    sim::World world(cluster, 4, {.fidelity = sim::Fidelity::Timing});
    const sim::Report report =
        world.run([&](comm::Runtime& doors) { return Fleet::train_rank(fleet.get(), &doors); });
    EXPECT_FALSE(report.failure);
    return to_seconds(fleet->recorder.steps.at(2).step_time);
  };
  EXPECT_GT(time_of_a_step(plan::Overlap::Backward) - time_of_a_step(plan::Overlap::Forward), 3e-3);
}

/// Both of rank 0's segments are one piece. What travels long is the second one's weights, beside the forward
/// pass of the first, 10 ms of each of two micro-batches, or the first one's, beside nothing.
TEST(ProfileModel, ASegmentOfAPieceWaitsForItsOwnWeightsAlone) {
  auto cluster = separate_hosts(4);
  cluster.hosts[0].network.bandwidth = 1e5;
  const auto time_of_a_step = [&](int first, int second) {
    plan::ModelProfile profile = two_segments();
    profile.segments.clear();
    for (const auto& [name, forward, weights] :
         {std::tuple("a", 2e-2, first), {"b", 1e-4, second}, {"c", 1e-4, 10}, {"d", 1e-4, 10}})
      profile.segments.push_back(
          {name, forward, 1e-4, 0, 0, {{std::string(name) + ".weight", {weights}}}, 1});
    auto fleet = make_fleet(profile, 4);
    fleet->plan.batch = {.global = 16, .micro_batches = 2};
    fleet->plan.mesh.pipeline = 2;
    fleet->plan.pipeline.cut = {"c"};
    fleet->plan.exchange.overlap = plan::Overlap::Forward;
    fleet->plan.exchange.order = plan::BucketOrder::Priority;
    fleet->plan.exchange.bucket_bytes = fleet->plan.exchange.slice_bytes = 1024;
    fleet->plan.exchange.in_flight = 1;
    sim::World world(cluster, 4, {.fidelity = sim::Fidelity::Timing});
    const sim::Report report =
        world.run([&](comm::Runtime& doors) { return Fleet::train_rank(fleet.get(), &doors); });
    if (report.failure) std::rethrow_exception(report.failure);
    return to_seconds(fleet->recorder.steps.at(2).step_time);
  };
  EXPECT_GT(time_of_a_step(2000, 10) - time_of_a_step(10, 2000), 9e-3);
}

}  // namespace
}  // namespace taxon::test
