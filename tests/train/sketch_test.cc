// gs-SGD that sends less than as published still trains as well.
#include "train/toy_job.h"

namespace taxon::test {
namespace {

class Sketches : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;
  Sketches() {
    datasets_.train = std::make_unique<data::Blobs>(samples(1200, 1));
    datasets_.test = std::make_unique<data::Blobs>(samples(800, 2));
  }
  static data::BlobOptions samples(std::int64_t size, std::uint64_t seed) {
    return {.size = size, .inputs = 20, .classes = 10, .seed = seed};
  }
  train::Outcome train(const plan::CodecPlan& codec, int hidden = 64, const plan::LevelPlan& level = {}) {
    TrainingJob job;
    job.ranks = kRanks;
    job.plan.batch.global = 48;
    job.plan.length.steps = 240;
    job.plan.precision = {DType::Float32, DType::Float32};
    job.plan.learning_rate.base = 0.05;
    job.plan.optimiser.rule = codec.name == "none" ? "momentum" : "sgd";
    job.plan.optimiser.momentum = codec.name == "none" ? 0.9 : 0;
    job.plan.exchange.levels[0] = level;
    job.plan.exchange.levels[0].codec = codec;
    job.datasets = &datasets_;
    job.make_model = [shape = datasets_.train->shape(), hidden](int) {
      return std::make_unique<model::Perceptron>(model::PerceptronOptions{.shape = shape, .hidden = hidden});
    };
    return run_training(job).outcomes[0];
  }
  data::Datasets datasets_;
};

/// What is published, at a density where it trains about as dense gradients do.
plan::CodecPlan published() {
  plan::CodecPlan codec{.name = "count_sketch", .options = {{"density", 0.02}, {"columns", 0.04}}};
  codec.momentum = 0.9;
  return codec;
}

TEST_F(Sketches, OfHalfTheBytesInSomeStepsAloneTrainAsWell) {
  const train::Outcome dense = train({.name = "none"}), plain = train(published());
  plan::CodecPlan small = published();
  small.options.set("candidates", 1);
  small.options.set("table", "bfloat16");
  for (int reuse : {1, 4, 8, 16}) {
    SCOPED_TRACE(testing::Message() << "reuse " << reuse);
    small.options.set("reuse", reuse);
    const train::Outcome outcome = train(small);
    EXPECT_GE(outcome.test.scores["accuracy"], dense.test.scores["accuracy"] - 0.01);
    EXPECT_LE(outcome.train_loss, 1.1 * plain.train_loss);
    EXPECT_LT(outcome.codecs.at(0).sent_bytes, plain.codecs.at(0).sent_bytes / (reuse == 1 ? 2 : 6));
  }
}

/// Meetings have turns of their own: by steps, of which every fourth has one, all sketches would be of one.
TEST_F(Sketches, OfReplicasThatMeetHaveTheirTurns) {
  plan::CodecPlan codec{.name = "count_sketch", .options = {{"density", 0.05}, {"candidates", 1}}};
  const plan::LevelPlan level{.rule = "average", .period = 4};
  const train::Outcome always = train(codec, 64, level);
  codec.options.set("reuse", 4);
  EXPECT_GE(train(codec, 64, level).test.scores["accuracy"], always.test.scores["accuracy"] - 0.05);
}

/// O(log d) of gs-SGD: one sketch and one number of entries for the whole model.
TEST_F(Sketches, OfTheWholeModelSendAsMuchForTenTimesTheValues) {
  plan::CodecPlan codec = published();
  codec.global = true;
  codec.options.set("entries", 60);
  codec.options.set("column_count", 160);
  const train::Outcome small = train(codec, 64), large = train(codec, 640);
  EXPECT_EQ(small.codecs.at(0).sent_bytes, large.codecs.at(0).sent_bytes);
  // An all-reduce of 5 rows of 160 columns and one of 4 candidates for each entry, as floats, each step.
  EXPECT_NEAR(small.codecs.at(0).sent_bytes, 2.0 * (kRanks - 1) / kRanks * 4 * (5 * 160 + 4 * 60), 64);
  EXPECT_GT(small.test.scores["accuracy"], 0.5);
  EXPECT_GT(large.test.scores["accuracy"], 0.5);
}

}  // namespace
}  // namespace taxon::test
