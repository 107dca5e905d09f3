#include "report/run_reading.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "report/summary.h"

namespace taxon::report {
namespace {

TEST(RunReading, TakesFromASummaryWhatAComparisonNeeds) {
  Summary summary;
  summary.seed = 7;
  summary.scores = {{{}, 0.9}};
  summary.step_ms_p50 = 12;
  summary.bytes_sent_per_step = 1000;
  summary.world_size = 4;
  const FinishedRun finished = read_summary(to_json(summary), "summary.json");
  EXPECT_EQ(finished.run.seed, 7u);
  EXPECT_EQ(finished.run.score, 0.9);
  EXPECT_DOUBLE_EQ(finished.run.seconds_per_step, 0.012);
  EXPECT_EQ(finished.world_size, 4);
  EXPECT_FALSE(finished.interrupted);
  EXPECT_FALSE(finished.run.staleness);
  summary.interrupted = true;
  EXPECT_TRUE(read_summary(to_json(summary), "summary.json").interrupted);
  EXPECT_TRUE(std::isnan(read_summary(to_json(summary), "summary.json").run.score));
}

TEST(RunReading, TakesWhatWasSeenOnTheValidationSetWhereThatWasEvaluated) {
  Summary summary;
  summary.split = plan::Split::Validation;
  summary.scores = {{{}, 0.8}};
  summary.loss = 0.5;
  const SystemRun run = read_summary(to_json(summary), "summary.json").run;
  EXPECT_EQ(run.score, 0.8);
  EXPECT_EQ(run.loss, 0.5);
  const auto curve =
      read_curve("{\"step\":5,\"accuracy/validation\":0.75,\"loss/validation\":1}\n", "metrics.jsonl");
  ASSERT_EQ(curve.size(), 1u);
  EXPECT_EQ(curve[0].score, 0.75);
  EXPECT_EQ(curve[0].loss, 1);
}

TEST(RunReading, TakesStalenessWhereThereIsSome) {
  const auto run =
      read_summary(R"({"staleness": {"mean": 1.5, "max": 3, "histogram": [1, 2, 2, 1]}})", "s").run;
  ASSERT_TRUE(run.staleness);
  EXPECT_EQ(run.staleness->mean, 1.5);
  EXPECT_EQ(run.staleness->max, 3);
  EXPECT_EQ(run.staleness->histogram, (std::vector<double>{1, 2, 2, 1}));
}

TEST(RunReading, TakesWhatCodecsOfAllLevelsDid) {
  Summary summary;
  EXPECT_FALSE(read_summary(to_json(summary), "s").run.codecs);
  summary.codecs = {{0, "bf16", 1000, 500, 1, 2}, {1, "top_k", 1000, 100, 3, 4}};
  const auto codecs = read_summary(to_json(summary), "s").run.codecs;
  ASSERT_TRUE(codecs);
  EXPECT_DOUBLE_EQ(codecs->ratio, 2000.0 / 600);
  EXPECT_DOUBLE_EQ(codecs->seconds, 0.010);
}

TEST(RunReading, TestsAloneMakeTheCurveAndLaterLinesCount) {
  const auto curve = read_curve(
      "{\"step\":5,\"samples\":50,\"seconds\":1,\"loss/train\":2}\n"
      "{\"step\":10,\"samples\":100,\"bytes_sent\":8,\"seconds\":2,\"accuracy/test\":0.5,\"loss/test\":1.5}\n"
      "{\"step\":20,\"samples\":200,\"bytes_sent\":16,\"seconds\":4,\"accuracy/test\":0.6,\"loss/"
      "test\":null}\n"
      "{\"step\":10,\"samples\":100,\"bytes_sent\":9,\"seconds\":3,\"accuracy/test\":0.5,\"loss/"
      "test\":1.5}\n",
      "metrics.jsonl");
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[0].seconds, 3);
  EXPECT_EQ(curve[0].bytes, 9);
  EXPECT_EQ(curve[1].score, 0.6);
  EXPECT_TRUE(std::isnan(curve[1].loss));
}

TEST(RunReading, ATraceComesBack) {
  const std::vector<std::vector<TraceSpan>> spans = {
      {{"compute", "forward", -1, 0, 1, 2}, {"exchange", "all_reduce", 1, 8, 3, 4}},
      {{"exchange", "all_reduce", 0x40000001, 8, 5, 6}}};
  const auto back = read_trace(chrome_trace(spans, {"bucket 0 (a)", "bucket 1 (b)"}), "trace.json");
  ASSERT_EQ(back.size(), 2u);
  ASSERT_EQ(back[0].size(), 2u);
  EXPECT_EQ(back[0][1].track, "exchange");
  EXPECT_EQ(back[0][1].name, "all_reduce");
  EXPECT_EQ(back[0][1].unit, 1);
  EXPECT_EQ(back[0][1].begin_us, 3);
  EXPECT_EQ(back[1][0].unit, 0x40000001);
  EXPECT_EQ(back[0][0].unit, -1);
}

TEST(RunReading, DamageIsNamed) {
  for (const char* text : {"", "{", "[]", "{\"seed\": \"one\"}"}) {
    try {
      read_summary(text, "runs/a/summary.json");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Data);
      EXPECT_NE(std::string(error.what()).find("runs/a/summary.json"), std::string::npos);
    }
  }
  EXPECT_THROW(read_trace("{\"traceEvents\": [{}]}", "t"), Error);
  EXPECT_THROW(read_curve("{\"accuracy/test\": 0.5", "m"), Error);
}

TEST(RunReading, TheScoreIsWhatTheSummarySays) {
  Summary summary;
  const ScoreKind bits{"bits_per_byte", ScoreKind::Unit::Number, ScoreKind::Better::Less};
  summary.scores = {{bits, 2.5}, {{"perplexity", bits.unit, bits.better}, 5.6}};
  const FinishedRun finished = read_summary(to_json(summary), "summary.json");
  EXPECT_EQ(finished.score, bits);
  EXPECT_EQ(finished.run.score, 2.5);
  const auto curve =
      read_curve("{\"step\":5,\"bits_per_byte/test\":3,\"perplexity/test\":8,\"loss/test\":2}\n", "m", bits);
  ASSERT_EQ(curve.size(), 1u);
  EXPECT_EQ(curve[0].score, 3);
  // Of before there were several.
  EXPECT_EQ(read_summary("{\"test_accuracy\": 0.5}", "summary.json").run.score, 0.5);
}

}  // namespace
}  // namespace taxon::report
