#include "report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace taxon::report {
namespace {

using OrderedJson = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

Summary some_summary() {
  return {.name = "fashion",
          .version = "0.1.0",
          .scores = {{{}, 0.9123}},
          .loss = 0.25,
          .train_loss = 0.125,
          .steps = 1407,
          .epochs = 3,
          .samples = 180'000,
          .samples_per_second = 2511.5,
          .step_ms_p50 = 48.5,
          .step_ms_p95 = 55.25,
          .compute_ms = 45.5,
          .exposed_communication_ms = 1.25,
          .data_wait_ms = 0.5,
          .bytes_sent_per_step = 13e6,
          .world_size = 2,
          .transport = "shm",
          .parameters = 3'240'000,
          .parameter_hash = 0x00ffULL,
          .seed = 0xffffffffffffffffULL,
          .wall_seconds = 72.5,
          .peak_rss_bytes = 400'000'000,
          .weight_bytes = 13'000'000,
          .gradient_bytes = 5'000'000,
          .optimiser_bytes = 6'500'000,
          .gradient_copies_per_step = 8,
          .gradient_copy_bytes_per_step = 12'960'000,
          .crossings = {{"conv1.weight", "static", 1152, 0.125, 2, "it was born elsewhere"},
                        {"fc1.weight", "dynamic", 12'800'000, 0, 0, ""}},
          .buckets = {{4'194'304, {"all_reduce direct"}},
                      {8'765'696, {"reduce_scatter ring", "all_gather ring"}}}};
}

TEST(SummaryJson, HasEveryKeyWithItsValue) {
  OrderedJson json = OrderedJson::parse(to_json(some_summary()));
  EXPECT_EQ(json["test_accuracy"], 0.9123);
  EXPECT_EQ(json["test_loss"], 0.25);
  EXPECT_EQ(json["train_loss"], 0.125);
  EXPECT_EQ(json["steps"], 1407);
  EXPECT_EQ(json["epochs"], 3);
  EXPECT_EQ(json["samples"], 180'000);
  EXPECT_EQ(json["samples_per_second"], 2511.5);
  EXPECT_EQ(json["step_ms"], (OrderedJson{{"p50", 48.5}, {"p95", 55.25}}));
  EXPECT_EQ(json["compute_ms"], 45.5);
  EXPECT_EQ(json["exposed_communication_ms"], 1.25);
  EXPECT_EQ(json["data_wait_ms"], 0.5);
  EXPECT_EQ(json["bytes_sent_per_step"], 13'000'000);
  EXPECT_EQ(json["world_size"], 2);
  EXPECT_EQ(json["transport"], "shm");
  EXPECT_EQ(json["parameters"], 3'240'000);
  EXPECT_EQ(json["parameter_hash"], "00000000000000ff");
  EXPECT_EQ(json["seed"], 0xffffffffffffffffULL);
  EXPECT_EQ(json["wall_seconds"], 72.5);
  EXPECT_EQ(json["peak_rss_bytes"], 400'000'000);
  EXPECT_EQ(json["arena_bytes"],
            OrderedJson::parse(R"({"weights": 13000000, "gradients": 5000000, "optimiser": 6500000})"));
  EXPECT_EQ(json["name"], "fashion");
  EXPECT_EQ(json["taxon_version"], "0.1.0");
  EXPECT_EQ(json["interrupted"], false);
  EXPECT_EQ(json["gradient_copies_per_step"], 8);
  EXPECT_EQ(json["gradient_copy_bytes_per_step"], 12'960'000);
  EXPECT_EQ(json["crossing_tensors"],
            OrderedJson::parse(
                R"([{"name": "conv1.weight", "shape": "static", "bytes": 1152, "copies_per_step": 0.125,
                             "last_copy": 2, "why": "it was born elsewhere"},
                            {"name": "fc1.weight", "shape": "dynamic", "bytes": 12800000, "copies_per_step": 0,
                             "last_copy": 0}])"));
  EXPECT_EQ(json["buckets"], OrderedJson::parse(R"([{"bytes": 4194304, "collectives": ["all_reduce direct"]},
                            {"bytes": 8765696, "collectives": ["reduce_scatter ring", "all_gather ring"]}])"));
}

TEST(SummaryJson, TheManualExplainsEveryKey) {
  std::ifstream page(TAXON_SOURCE_DIR "/docs/outputs.md");
  ASSERT_TRUE(page) << "docs/outputs.md is missing";
  std::string text(std::istreambuf_iterator<char>(page), {});
  OrderedJson json = OrderedJson::parse(to_json(some_summary()));
  for (auto& [key, value] : json.items()) EXPECT_THAT(text, HasSubstr("| `" + key + "` |"));
}

TEST(SummaryJson, NumbersThatAreNoneAreNull) {
  Summary summary = some_summary();
  summary.train_loss = std::nan("");
  summary.loss = HUGE_VAL;
  OrderedJson json = OrderedJson::parse(to_json(summary));
  EXPECT_TRUE(json["train_loss"].is_null());
  EXPECT_TRUE(json["test_loss"].is_null());
}

TEST(SummaryJson, AnInterruptedRunHasNoTestResult) {
  Summary summary = some_summary();
  summary.interrupted = true;
  OrderedJson json = OrderedJson::parse(to_json(summary));
  EXPECT_EQ(json["interrupted"], true);
  EXPECT_TRUE(json["test_accuracy"].is_null());
  EXPECT_TRUE(json["test_loss"].is_null());
  EXPECT_EQ(json["train_loss"], 0.125);
}

TEST(SummaryText, TellsAccuracySpeedTrafficAndWhereTheOutputsAre) {
  std::string text = to_text(some_summary(), "runs/fashion");
  for (const char* part :
       {"91.23 %", "2512 samples/s", "48.50 ms median", "12.4 MiB per step and worker over shm", "2 buckets",
        "1 of static shape, 1 of dynamic; copies in the last step: 8; last copied: conv1.weight in step 2, "
        "since "
        "it was born elsewhere",
        "runs/fashion/", "1 min 12 s"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(SummaryText, OneWorkerSendsNothing) {
  Summary summary = some_summary();
  summary.world_size = 1;
  EXPECT_THAT(to_text(summary, "x"), HasSubstr("nothing: one worker"));
}

TEST(SummaryText, AnInterruptedRunSaysHowToGoOn) {
  Summary summary = some_summary();
  summary.interrupted = true;
  std::string text = to_text(summary, "x");
  EXPECT_THAT(text, HasSubstr("--resume"));
  EXPECT_THAT(text, Not(HasSubstr("accuracy")));
}

TEST(MetricsLine, IsOneLineOfJsonInTheGivenOrder) {
  std::string line = metrics_line({{"step", 10}, {"loss/train", 0.1}, {"gradient_norm", std::nan("")}});
  EXPECT_EQ(line, "{\"step\":10,\"loss/train\":0.1,\"gradient_norm\":null}\n");
}

TEST(Summary, SaysWhatCodecsDid) {
  Summary summary = some_summary();
  EXPECT_FALSE(OrderedJson::parse(to_json(summary)).contains("codecs"));
  summary.codecs = {{.level = 1,
                     .codec = "top_k",
                     .dense_bytes_per_step = 1000,
                     .sent_bytes_per_step = 40,
                     .encode_ms = 1.5,
                     .decode_ms = 0.25}};
  const OrderedJson use = OrderedJson::parse(to_json(summary)).at("codecs").at(0);
  EXPECT_EQ(use.at("level"), 1);
  EXPECT_EQ(use.at("codec"), "top_k");
  EXPECT_EQ(use.at("ratio"), 25);
  EXPECT_EQ(use.at("encode_ms"), 1.5);
  EXPECT_EQ(use.at("decode_ms"), 0.25);
  EXPECT_THAT(to_text(summary, "x"), HasSubstr("top_k at level 1: 25.0 times less than dense"));
}

TEST(Summary, ScoresOfOtherTasksHaveTheirNames) {
  Summary summary = some_summary();
  const ScoreKind bits{"bits_per_byte", ScoreKind::Unit::Number, ScoreKind::Better::Less};
  summary.scores = {{bits, 2.125}, {{"perplexity", bits.unit, bits.better}, 4.36}};
  summary.prompt = "In the\n";
  summary.written = " beginning\x1b";
  const OrderedJson json = OrderedJson::parse(to_json(summary));
  EXPECT_EQ(json["test_bits_per_byte"], 2.125);
  EXPECT_EQ(json["test_perplexity"], 4.36);
  EXPECT_FALSE(json.contains("test_accuracy"));
  EXPECT_EQ(json["metric"], (OrderedJson{{"name", "bits_per_byte"}, {"unit", "number"}, {"better", "less"}}));
  EXPECT_EQ(json["sample"]["prompt"], "In the\n");
  const std::string text = to_text(summary, "runs/kjv");
  EXPECT_THAT(text, HasSubstr("test bits per byte 2.1250   (perplexity 4.3600, loss 0.2500)"));
  EXPECT_THAT(text,
              HasSubstr("after \"In the\\n\": \" beginning\\u001b\""));  // nothing for the terminal to obey
}

}  // namespace
}  // namespace taxon::report
