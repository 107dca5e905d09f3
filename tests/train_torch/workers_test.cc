// The bundled models trained by one and by several workers: the same mathematics, whatever the number of
// workers.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "checkpoint/safetensors.h"
#include "data/memory_storage.h"
#include "plan/model_file.h"
#include "support/delayed_updates.h"
#include "support/training.h"
#include "train/start/divided.h"

namespace taxon::test {
namespace {

/// The plan's model on each rank. Both outlive it.
std::function<std::unique_ptr<model::Model>(int)> bundled(const plan::Plan& plan,
                                                          const data::Datasets& datasets) {
  return [&](int rank) {
    return model::make_model({.plan = &plan.model,
                              .shape = datasets.train->shape(),
                              .compute = plan.precision.compute,
                              .seed = plan.seed,
                              .rank = rank});
  };
}

/// A file of images of five classes.
template <int kSide>
std::string table() {
  struct Table {
    Table() {
      std::ofstream file(path);
      for (int row = 0; row < 160; ++row) {
        for (int i = 0; i < kSide * kSide; ++i)
          file << std::sin(0.7 * (kSide * kSide * row + i)) + (i % 5 == row % 5) << ",";
        file << row % 5 << "\n";
      }
    }
    ~Table() { std::filesystem::remove(path); }
    const std::string path = ::testing::TempDir() + fmt::format("taxon_table_{}_{}.csv", kSide, ::getpid());
  };
  static const Table table;
  return table.path;
}
/// So many pixels a side; a fifth of the images are for validation.
template <int kSide>
void use_images(plan::Plan& plan) {
  plan.data.dataset = "csv";
  plan.data.path = table<kSide>();
  plan.data.validation_share = 0.2;
  plan.evaluation.split = plan::Split::Validation;
  plan.data.options = {{"shape", fmt::format("[1, {0}, {0}]", kSide)}};
}

class Workers : public ::testing::TestWithParam<const char*> {
 protected:
  static plan::Plan make_plan(DType type) {
    plan::Plan plan;
    plan.model.name = GetParam();
    plan.data.dataset = "synthetic";
    plan.data.train_limit = 125;  // 12 batches of 10 and one of 5 per epoch: some ranks get nothing there
    plan.data.test_limit = 20;
    if (plan.model.name == "cnn") use_images<8>(plan);
    plan.batch.global = 10;
    plan.length.steps = 50;
    plan.precision = {type, type};
    plan.learning_rate.base = 0.02;
    plan.evaluation.every_epochs = 0;
    return plan;
  }

  TrainingResult train(int ranks, const plan::Plan& plan) {
    datasets_ = data::open_datasets(plan.data, files_);
    TrainingJob job;
    job.ranks = ranks;
    job.plan = plan;
    job.datasets = &datasets_;
    job.make_model = bundled(plan, datasets_);
    return run_training(job);
  }

  data::FileStorage files_;
  data::Datasets datasets_;
};

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), norm += a[i] * a[i];
  return std::sqrt(difference / norm);
}

TEST_P(Workers, GiveTheSingleProcesssParametersInDoublePrecision) {
  auto plan = make_plan(DType::Float64);
  auto one = train(1, plan);
  for (int ranks : {2, 3, 4, 8}) {
    auto many = train(ranks, plan);
    double distance = relative_distance(one.parameters, many.parameters);
    RecordProperty("workers_" + std::to_string(ranks), std::to_string(distance));
    EXPECT_LT(distance, 1e-10) << ranks << " workers";
  }
}

TEST_P(Workers, GiveTheSingleProcesssParametersInSinglePrecision) {
  auto plan = make_plan(DType::Float32);
  auto one = train(1, plan);
  EXPECT_LT(relative_distance(one.parameters, train(3, plan).parameters), 1e-3);
  EXPECT_EQ(train(2, plan).outcomes[0].parameter_hash, train(2, plan).outcomes[0].parameter_hash);
}

TEST_P(Workers, GiveTheSameBitsWhereNoGradientIsBornInItsPlace) {
  auto plan = make_plan(DType::Float32);
  const auto placed = train(2, plan);
  plan.transport.trace_allocations = false;
  const auto copied = train(2, plan);
  EXPECT_EQ(copied.outcomes[0].parameter_hash, placed.outcomes[0].parameter_hash);
  EXPECT_LT(placed.outcomes[0].copies_per_step, copied.outcomes[0].copies_per_step);
  std::int64_t in_every_step = 0;
  for (const model::GradientTransfer& crossing : copied.outcomes[0].crossings) {
    if (crossing.copies == 0) continue;  // its layer wrote it in place itself
    EXPECT_EQ(crossing.copies, crossing.steps) << crossing.name << ": " << crossing.why;
    ++in_every_step;
  }
  EXPECT_EQ(in_every_step, copied.outcomes[0].copies_per_step);
}

/// A model of libtorch in stages, and its layers in parts, over ranks.
struct DividedCase {
  const char* model;
  int pipeline;
  const char* schedule;
  int tensor = 1;
  int micro_batches = 4;
  std::vector<std::string> splits = {};
  friend void PrintTo(const DividedCase& c, std::ostream* out) {
    *out << c.model << " in " << c.pipeline << " by " << c.schedule << ", " << c.tensor << " members "
         << fmt::format("{}", fmt::join(c.splits, " "));
  }
};

class DividedWorkers : public ::testing::TestWithParam<DividedCase> {
 protected:
  static plan::Plan make_plan(DType type) {
    plan::Plan plan;
    plan.model.name = GetParam().model;
    plan.data.train_limit = 60;
    plan.data.test_limit = 10;
    plan.batch = {.global = 12, .micro_batches = GetParam().micro_batches};
    plan.length.steps = 50;
    plan.precision = {type, type};
    plan.learning_rate.base = 0.01;
    plan.optimiser.clip_norm = 1;
    plan.data.dataset = "synthetic";
    const std::string_view model = GetParam().model;
    if (plan::is_model_file(model)) {
      plan.model.name = TAXON_SOURCE_DIR "/tests/model/torch/exported/networks/" + plan.model.name;
      use_images<6>(plan);
    }
    if (model == "cnn")
      use_images<8>(plan);  // its first linear layer has as many inputs as these have pixels, and more
    if (model == "vit")
      plan.model.options = {{"layers", "2"}, {"width", "16"}, {"heads", "2"}, {"patch", "7"}};
    if (model == "gpt") plan.model.options = {{"layers", "2"}, {"width", "16"}, {"heads", "4"}};
    if (model == "lstm")  // members make summands of the embedding's gradient, which stages can't share then
      plan.model.options = {
          {"layers", "2"}, {"width", "16"}, {"tied", GetParam().tensor > 1 ? "false" : "true"}};
    if (model == "gpt" || model == "lstm") {
      plan.data = {.dataset = "text", .path = TAXON_SOURCE_DIR "/README.md", .train_limit = 60};
      plan.data.options = {{"context", "16"}};
    }
    return plan;
  }
  static int ranks_of(const plan::Plan& plan, int replicas) {
    return replicas * plan.mesh.pipeline * plan.mesh.tensor;
  }
  /// `stop_after`: as TrainingJob's. Goes on from what `storage` has.
  static void train(int replicas, const plan::Plan& plan, data::MemoryStorage& storage,
                    std::int64_t stop_after = 0) {
    data::FileStorage files;
    const data::Datasets datasets = data::open_datasets(plan.data, files);
    TrainingJob job;
    job.ranks = ranks_of(plan, replicas);
    job.start = train::TrainOptions::Start::Resume;
    job.stop_after = stop_after;
    job.plan = plan;
    job.datasets = &datasets;
    job.storage = &storage;
    job.out = "run";
    job.make_model = bundled(plan, datasets);
    run_training(job);
  }
  /// The parameters at the end.
  std::vector<double> trained(int replicas, const plan::Plan& plan, data::MemoryStorage& storage,
                              std::int64_t stop_after = 0) {
    train(replicas, plan, storage, stop_after);
    std::vector<double> values;
    if (stop_after > 0) return values;
    for (const auto& tensor : checkpoint::read_safetensors(storage, "run/model.safetensors")) {
      const ConstView bytes(tensor.bytes.data(), tensor.bytes.size());
      if (tensor.type == DType::Float64)
        for (double value : as_span<double>(bytes)) values.push_back(value);
    }
    EXPECT_FALSE(values.empty());
    return values;
  }
  std::vector<double> trained(int replicas, const plan::Plan& plan) {
    data::MemoryStorage storage;
    return trained(replicas, plan, storage);
  }
};

/// Another order of sums is all that may differ.
TEST_P(DividedWorkers, GiveTheSingleProcesssParametersInDoublePrecision) {
  auto plan = make_plan(DType::Float64);
  const auto one = trained(1, plan);
  plan.mesh.pipeline = GetParam().pipeline;
  plan.mesh.tensor = GetParam().tensor;
  plan.mesh.splits = GetParam().splits;
  plan.pipeline.schedule = GetParam().schedule;
  for (int replicas : {1, 2}) EXPECT_LT(relative_distance(one, trained(replicas, plan)), 1e-12) << replicas;
}

TEST_P(DividedWorkers, GoOnUnderAnotherMesh) {
  auto plan = make_plan(DType::Float64);
  plan.length.steps = 20;
  auto divided = plan;
  divided.mesh.pipeline = GetParam().pipeline;
  divided.mesh.tensor = GetParam().tensor;
  divided.mesh.splits = GetParam().splits;
  divided.pipeline.schedule = GetParam().schedule;
  const auto one = trained(1, plan);
  data::MemoryStorage to_one, to_parts;
  trained(1, divided, to_one, 8);
  EXPECT_LT(relative_distance(one, trained(1, plan, to_one)), 1e-12);
  trained(2, plan, to_parts, 8);
  EXPECT_LT(relative_distance(one, trained(1, divided, to_parts)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Models, DividedWorkers,
    ::testing::Values(DividedCase{"cnn", 2, "gpipe"}, DividedCase{"cnn", 3, "zb_h1"},
                      DividedCase{"cnn", 4, "1f1b"}, DividedCase{"gpt", 2, "1f1b"},
                      DividedCase{"gpt", 3, "zb_h1"}, DividedCase{"gpt", 4, "gpipe"},
                      DividedCase{"gpt", 2, "interleaved"}, DividedCase{"mlp", 1, "1f1b", 2, 1},
                      DividedCase{"mlp", 3, "zb_h1", 2}, DividedCase{"cnn", 1, "1f1b", 2, 1},
                      DividedCase{"cnn", 2, "1f1b", 4}, DividedCase{"gpt", 1, "gpipe", 2},
                      DividedCase{"gpt", 2, "1f1b", 2}, DividedCase{"gpt", 4, "zb_h1", 2},
                      DividedCase{"gpt", 1, "1f1b", 4}, DividedCase{"gpt", 2, "zb_h1", 4},
                      DividedCase{"vit", 3, "zb_h1"}, DividedCase{"vit", 2, "1f1b", 2},
                      DividedCase{"lstm", 3, "zb_h1"}, DividedCase{"lstm", 2, "1f1b", 2}));

// Programs of torch.export.
INSTANTIATE_TEST_SUITE_P(Files, DividedWorkers,
                         ::testing::Values(DividedCase{"cnn.pt2", 3, "zb_h1"},
                                           DividedCase{"cnn.pt2", 1, "1f1b", 2, 1},
                                           DividedCase{"cnn.pt2", 2, "1f1b", 2},
                                           DividedCase{"vit.pt2", 3, "1f1b"},
                                           DividedCase{"vit.pt2", 2, "zb_h1", 2},
                                           DividedCase{"cnn.pt2", 1, "1f1b", 2, 1, {"auto"}}));

// Hybrids: some layers by samples, inside groups of members.
INSTANTIATE_TEST_SUITE_P(
    Hybrids, DividedWorkers,
    ::testing::Values(DividedCase{"cnn", 1, "1f1b", 2, 1, {"conv1=samples", "conv2=samples"}},
                      DividedCase{"cnn", 1, "1f1b", 4, 5, {"conv1=samples", "conv2=samples", "fc1=inputs"}},
                      DividedCase{"cnn", 2, "zb_h1", 2, 4, {"conv2=samples", "fc1=outputs", "fc2=samples"}},
                      DividedCase{"gpt", 2, "1f1b", 2, 4, {"h.0.attn=samples", "h.1.mlp=samples"}}));

/// Parameters of a network of libtorch that ranks have in parts and gather segment by segment.
class GatheredWorkers : public DividedWorkers {
 protected:
  static bool is_divided() { return GetParam().pipeline * GetParam().tensor > 1; }
  static plan::Plan sharded(plan::Plan plan) {
    plan.mesh.pipeline = GetParam().pipeline;
    plan.mesh.tensor = GetParam().tensor;
    plan.mesh.splits = GetParam().splits;
    plan.pipeline.schedule = GetParam().schedule;
    plan.exchange.levels[0].topology = "sharded";
    plan.exchange.levels[0].collective = "direct";
    return plan;
  }
  static plan::Plan in_parts(plan::Plan plan, bool ring = true) {
    plan = sharded(std::move(plan));
    plan.exchange.levels[0].options = {{"parameters", "sharded"}};
    if (ring && !is_divided()) plan.exchange.gradients = plan::GradientMemory::Ring;
    plan.exchange.order = plan::BucketOrder::Backward;
    plan.exchange.bucket_bytes = 64 << 10;
    plan.exchange.slice_bytes = 256 << 10;
    return plan;
  }
};

TEST_P(GatheredWorkers, GiveTheSingleProcesssParametersInDoublePrecision) {
  auto plan = make_plan(DType::Float64);
  const auto one = trained(1, plan);
  for (int replicas : is_divided() ? std::vector{2} : std::vector{2, 3, 4})
    EXPECT_LT(relative_distance(one, trained(replicas, in_parts(plan))), 1e-12) << replicas;
}

TEST_P(GatheredWorkers, GoOnFromOthersCheckpointsAndTheyFromTheirs) {
  auto plan = make_plan(DType::Float64);
  plan.length.steps = 20;
  const auto one = trained(1, plan);
  data::MemoryStorage to_one, to_parts;
  trained(3, in_parts(plan), to_one, 8);
  EXPECT_LT(relative_distance(one, trained(1, plan, to_one)), 1e-12);
  trained(2, plan, to_parts, 8);
  EXPECT_LT(relative_distance(one, trained(2, in_parts(plan), to_parts)), 1e-12);
}

/// Summands of a weight that two segments read are rounded before they meet in bfloat16, unless one graph has
/// both.
TEST_P(GatheredWorkers, GiveTheBitsOfShardedState) {
  auto plan = make_plan(DType::Float32);
  plan.optimiser.clip_norm = 0;  // squares are added bucket by bucket
  if (plan.model.name != "gpt") plan.precision.compute = DType::BFloat16;
  plan.length.steps = 6;
  const auto values = [&](const plan::Plan& plan) {
    data::MemoryStorage storage;
    train(2, plan, storage);
    std::vector<float> values;
    for (const auto& tensor : checkpoint::read_safetensors(storage, "run/model.safetensors")) {
      const auto floats = as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()));
      values.insert(values.end(), floats.begin(), floats.end());
    }
    return values;
  };
  const auto expected = values(sharded(plan));
  EXPECT_EQ(values(in_parts(plan)), expected);
  EXPECT_EQ(values(in_parts(plan, false)), expected);
}

INSTANTIATE_TEST_SUITE_P(Models, GatheredWorkers,
                         ::testing::Values(DividedCase{"mlp", 1, "1f1b", 1, 1},
                                           DividedCase{"cnn", 1, "1f1b", 1, 1}, DividedCase{"cnn", 1, "1f1b"},
                                           DividedCase{"gpt", 1, "1f1b", 1, 1},
                                           DividedCase{"cnn.pt2", 1, "1f1b", 1, 1}));

INSTANTIATE_TEST_SUITE_P(
    Divided, GatheredWorkers,
    ::testing::Values(DividedCase{"mlp", 2, "1f1b"}, DividedCase{"mlp", 1, "1f1b", 2},
                      DividedCase{"mlp", 2, "zb_h1", 2}, DividedCase{"cnn", 2, "gpipe"},
                      DividedCase{"cnn", 1, "1f1b", 2}, DividedCase{"cnn", 2, "1f1b", 2},
                      DividedCase{"cnn", 2, "1f1b", 2, 4, {"conv2=samples", "fc1=outputs", "fc2=samples"}},
                      DividedCase{"gpt", 2, "1f1b"}, DividedCase{"gpt", 2, "interleaved"},
                      DividedCase{"gpt", 1, "1f1b", 2, 1}, DividedCase{"gpt", 2, "1f1b", 2},
                      DividedCase{"cnn.pt2", 2, "1f1b", 2}));

INSTANTIATE_TEST_SUITE_P(Models, Workers, ::testing::Values("mlp", "cnn"));

/// Files have values in the order of the shapes, however the run that wrote them has them in memory.
class MemoryFormats : public GatheredWorkers {};

TEST_P(MemoryFormats, ComeToTheSameAndGoOnFromEachOthersCheckpoints) {
  auto plan = sharded(make_plan(DType::Float64));
  plan.length.steps = 8;
  plan.optimiser.rule = "momentum";
  plan.optimiser.momentum = 0.9;
  auto contiguous = plan, channels_last = plan;
  contiguous.model.memory_format = plan::MemoryFormat::Contiguous;
  channels_last.model.memory_format = plan::MemoryFormat::ChannelsLast;
  const auto expected = trained(2, contiguous);
  EXPECT_LT(relative_distance(expected, trained(2, channels_last)), 1e-12);
  data::MemoryStorage to_contiguous, to_channels_last;
  trained(2, channels_last, to_contiguous, 4);
  EXPECT_LT(relative_distance(expected, trained(2, contiguous, to_contiguous)), 1e-12);
  trained(2, contiguous, to_channels_last, 4);
  EXPECT_LT(relative_distance(expected, trained(2, channels_last, to_channels_last)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryFormats,
                         ::testing::Values(DividedCase{"cnn", 1, "1f1b"}, DividedCase{"cnn", 2, "1f1b", 2},
                                           DividedCase{"cnn.pt2", 1, "1f1b"}));

/// Replicas that train apart: what ranks keep whole has tensors, and what they keep parts of has none that
/// could be put into another order.
class MemoryFormatsApart : public MemoryFormats {
 protected:
  plan::Plan apart(const char* topology) const {
    auto plan = make_plan(DType::Float64);
    plan.length.steps = 8;
    plan.exchange.levels = {
        {.topology = topology, .rule = "outer_nesterov", .period = 4, .rate = 0.7, .momentum = 0.9}};
    return plan;
  }
};

TEST_P(MemoryFormatsApart, GoOnFromWholeTensors) {
  auto plan = apart("all_reduce");
  const auto expected = trained(2, plan);
  data::MemoryStorage out;
  trained(2, plan, out, 4);
  plan.model.memory_format = plan::MemoryFormat::Contiguous;
  EXPECT_LT(relative_distance(expected, trained(2, plan, out)), 1e-12);
}

TEST_P(MemoryFormatsApart, GoOnInTheirOwnOrderAloneWithParts) {
  auto plan = apart("sharded");
  const auto expected = trained(2, plan);
  data::MemoryStorage own, other;
  trained(2, plan, own, 4);
  EXPECT_EQ(trained(2, plan, own), expected);
  trained(2, plan, other, 4);
  plan.model.memory_format = plan::MemoryFormat::Contiguous;
  try {
    trained(2, plan, other);
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Checkpoint);
    EXPECT_NE(std::string(error.what()).find("model.memory_format"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryFormatsApart, ::testing::Values(DividedCase{"cnn", 1, "1f1b", 1, 1}));

/// Stages of libtorch networks that update their weights while micro-batches are under way.
struct PipelinedCase {
  const char* model;
  const char* schedule;
  int micros_per_update;
  std::vector<int> delays;
  int replicas = 1;
  plan::Options options = {};
  plan::Activations activations = plan::Activations::Kept;
  friend void PrintTo(const PipelinedCase& c, std::ostream* out) {
    *out << c.model << " by " << c.schedule << fmt::format(" {}", fmt::join(c.delays, " "));
  }
};

class PipelinedWorkers : public ::testing::TestWithParam<PipelinedCase> {};

TEST_P(PipelinedWorkers, FollowTheRecurrence) {
  const PipelinedCase& c = GetParam();
  plan::Plan plan;
  plan.model.name = c.model;
  plan.data = {.dataset = "synthetic", .train_limit = 100, .test_limit = 10};
  plan.batch = {.global = 32, .micro_batches = 8};
  plan.length.steps = 3;
  plan.precision = {DType::Float64, DType::Float64};
  plan.learning_rate = {.base = 0.01, .schedule = "constant"};
  plan.mesh.pipeline = static_cast<int>(c.delays.size());
  plan.pipeline = {.schedule = c.schedule, .activations = c.activations, .options = c.options};
  data::FileStorage files;
  const data::Datasets datasets = data::open_datasets(plan.data, files);
  data::MemoryStorage storage;
  TrainingJob job;
  job.ranks = c.replicas * plan.mesh.pipeline;
  job.plan = plan;
  job.datasets = &datasets;
  job.storage = &storage;
  job.out = "run";
  job.make_model = bundled(plan, datasets);
  DelayedUpdates recurrence{
      .make = [&] { return job.make_model(0); },
      .train = datasets.train.get(),
      .plan = plan,
      .replicas = c.replicas,
      .micros_per_update = c.micros_per_update,
      .stages = train::cut_into_stages(job.make_model(0)->spec(), plan.mesh.pipeline, {}),
      .delays = c.delays};
  run_training(job);
  EXPECT_LT(distance_between(recurrence.weights(), exported(storage)), 1e-12);
  recurrence.delays.front() = 0;
  EXPECT_GT(distance_between(recurrence.weights(), exported(storage)), 1e-8);
}

INSTANTIATE_TEST_SUITE_P(
    Models, PipelinedWorkers,
    ::testing::Values(PipelinedCase{"mlp", "pipedream", 1, {2, 1, 0}},
                      PipelinedCase{"mlp", "pipedream", 1, {1, 0}, 2},
                      PipelinedCase{"mlp", "pipedream", 1, {2, 2, 2}, 1, {{"vertical_sync", true}}},
                      PipelinedCase{"mlp", "pipedream_2bw", 4, {1, 1, 1}, 2, {{"micros_per_update", 4}}},
                      PipelinedCase{"cnn", "pipedream", 1, {3, 2, 1, 0}},
                      PipelinedCase{"cnn", "pipedream", 1, {2, 1, 0}, 1, {}, plan::Activations::Recomputed},
                      PipelinedCase{"cnn", "pipedream_2bw", 4, {1, 1, 1, 1}}));

}  // namespace
}  // namespace taxon::test
