// Codec auto: probes, decides once, says why, and goes on as it decided.
#include "data/memory_storage.h"
#include "support/clusters.h"
#include "train/start/codec_choice.h"
#include "train/toy_job.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

class Auto : public Train {
 protected:
  static plan::Plan plan_with(const std::string& codec) {
    plan::Plan plan = toy_plan(DType::Float32);
    plan.exchange.levels[0].codec.name = codec;
    plan.exchange.bucket_bytes = 2000;  // some buckets whose wires' heads don't decide
    return plan;
  }
  TrainingJob wide_job(int ranks, const plan::Plan& plan) {
    TrainingJob wide = job(ranks, plan);
    wide.make_model = [options = model_options(plan)](int) {
      auto own = options;
      own.hidden = 64;
      return std::make_unique<model::Perceptron>(own);
    };
    return wide;
  }
  /// What codecs and links cost there.
  static plan::ClusterModel cluster(double memory, double link) {
    plan::ClusterModel cluster = separate_hosts(kRanks);
    cluster.hosts[0].device.memory_bandwidth = memory;
    cluster.hosts[0].network = {.latency = 1e-9, .overhead = 0, .bandwidth = link};
    return cluster;
  }
  static plan::ClusterModel slow_links() { return cluster(1e12, 1e4); }
  static plan::ClusterModel slow_codecs() { return cluster(1e4, 1e12); }
  static std::vector<std::string> served(const TrainingResult& result, int rank = 0) {
    std::vector<std::string> served;
    for (const auto& bucket : result.recorders[static_cast<std::size_t>(rank)].info.plan.resolved.buckets)
      served.push_back(bucket.collectives.at(0));
    return served;
  }
  TrainingResult run(const plan::Plan& plan, const plan::ClusterModel& where) {
    return run_virtual_training(wide_job(kRanks, plan), where);
  }
  static constexpr int kRanks = 3;
};

TEST_F(Auto, IsTheCodecWhereLinksAreSlow) {
  const TrainingResult chosen = run(plan_with("auto"), slow_links());
  for (int rank = 0; rank < kRanks; ++rank)
    for (const std::string& by : served(chosen, rank)) EXPECT_EQ(by, "all_reduce bf16");
  EXPECT_EQ(chosen.outcomes[0].parameter_hash,
            run(plan_with("bf16"), slow_links()).outcomes[0].parameter_hash);
  EXPECT_EQ(chosen.outcomes[0].codecs.at(0).codec, "bf16");
  for (const auto& bucket : chosen.recorders[0].info.plan.resolved.buckets)
    EXPECT_TRUE(bucket.reasons.at(0).starts_with("bf16: ")) << bucket.reasons[0];
}

TEST_F(Auto, IsWeighedForATopologyOfTheProgramsOwn) {
  exchange::TopologyRow row = exchange::find_topology("all_reduce");
  row.name = "mine";
  const exchange::TopologyRow rows[] = {row};
  plan::Plan plan = plan_with("auto");
  plan.exchange.levels[0].topology = "mine";
  TrainingJob own = wide_job(kRanks, plan);
  own.own.topologies = rows;
  for (const std::string& by : served(run_virtual_training(own, slow_links())))
    EXPECT_EQ(by, "all_reduce bf16");
}

TEST_F(Auto, IsDenseWhereCodecsAreSlow) {
  const TrainingResult chosen = run(plan_with("auto"), slow_codecs());
  for (const std::string& by : served(chosen)) EXPECT_NE(by, "all_reduce bf16");
  EXPECT_EQ(chosen.outcomes[0].parameter_hash,
            run(plan_with("none"), slow_codecs()).outcomes[0].parameter_hash);
  EXPECT_EQ(chosen.outcomes[0].bytes_sent_per_step,
            run(plan_with("none"), slow_codecs()).outcomes[0].bytes_sent_per_step);
  for (const auto& bucket : chosen.recorders[2].info.plan.resolved.buckets)
    EXPECT_TRUE(bucket.reasons.at(0).starts_with("dense: ")) << bucket.reasons[0];
}

TEST_F(Auto, AResumedRunKeepsWhatItDecided) {
  const plan::Plan plan = plan_with("auto");
  const TrainingResult whole = run(plan, slow_links());
  data::MemoryStorage storage;
  TrainingJob first = stopping(wide_job(kRanks, plan), 16, &storage);
  run_virtual_training(first, slow_links());
  TrainingJob rest = going_on(wide_job(kRanks, plan), &storage);
  const TrainingResult resumed = run_virtual_training(rest, slow_codecs());
  EXPECT_GT(resumed.recorders[0].info.start_step, 0);
  EXPECT_EQ(served(resumed), served(whole));
  EXPECT_EQ(resumed.outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash);
}

bool says(const Recorder& recorder, const std::string& words) {
  return std::any_of(recorder.notices.begin(), recorder.notices.end(),
                     [&](const std::string& notice) { return notice.find(words) != std::string::npos; });
}

TEST_F(Auto, CodecsThatCostMoreThanTheySaveAreNamed) {
  const std::string words = "codec int8 costs more than it saves";
  const TrainingResult slow = run(plan_with("int8"), slow_codecs());
  EXPECT_TRUE(says(slow.recorders[0], words));
  EXPECT_FALSE(says(slow.recorders[1], words));  // once
  EXPECT_FALSE(says(run(plan_with("bf16"), slow_links()).recorders[0], "costs more"));
}

/// At a level where nobody weighs what codecs cost.
plan::Plan sharded(plan::Plan plan) {
  plan.exchange.levels[0].topology = "sharded";
  return plan;
}

TEST_F(Auto, CodecsInsideAHostAreNamed) {
  const std::string words = "level 0: its 3 members are on one host, where codec int8 mostly costs more";
  plan::Plan plan = sharded(plan_with("int8"));
  const TrainingResult inside = run(plan, one_host(kRanks));
  const auto& notices = inside.recorders[0].notices;
  EXPECT_EQ(
      std::count_if(notices.begin(), notices.end(), [&](const auto& n) { return n.starts_with(words); }), 1);
  EXPECT_FALSE(says(inside.recorders[1], words));
  EXPECT_FALSE(says(run(plan, separate_hosts(kRanks)).recorders[0], "on one host"));
  EXPECT_FALSE(says(run(sharded(plan_with("none")), one_host(kRanks)).recorders[0], "on one host"));
  EXPECT_FALSE(says(run(plan_with("int8"), one_host(kRanks)).recorders[0], "on one host"));  // it is weighed
  EXPECT_FALSE(says(run_training(job(1, plan)).recorders[0], "on one host"));
  plan.exchange.levels[0].codec.force = true;
  EXPECT_FALSE(says(run(plan, one_host(kRanks)).recorders[0], "on one host"));
}

TEST_F(Auto, CodecsOfReplicasThatMeetInsideAHostAreNamed) {
  plan::Plan plan = plan_with("none");
  plan.exchange.levels[0].rule = "average";
  plan.exchange.levels[0].period = 5;
  plan.exchange.levels[0].codec.name = "int8";
  EXPECT_TRUE(says(run(plan, one_host(kRanks)).recorders[0], "level 0: its 3 members are on one host"));
}

TEST_F(Auto, OneWorkerHasNothingToDecide) {
  const TrainingResult alone = run_training(job(1, plan_with("auto")));
  EXPECT_EQ(alone.outcomes[0].parameter_hash,
            run_training(job(1, plan_with("none"))).outcomes[0].parameter_hash);
}

}  // namespace
}  // namespace taxon::test
