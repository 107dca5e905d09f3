#include "report/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "report/comparison_page.h"
#include "report/comparison_table.h"
#include "report/count.h"

namespace taxon::report {
namespace {

SystemRun run(std::uint64_t seed, double accuracy) {
  SystemRun run;
  run.seed = seed;
  run.score = accuracy;
  run.loss = 1 - accuracy;
  run.samples_per_second = 1000;
  run.seconds_per_step = 0.02;
  run.bytes_per_step = 3 << 20;
  run.compute_seconds = 0.015;
  run.exposed_seconds = 0.005;
  run.curve = {{1, 1000, 1e6, 0.9, accuracy - 0.2}, {2, 2000, 2e6, 0.5, accuracy}};
  return run;
}

Comparison two_systems() {
  const plan::Axes ring{"data", "replicated", "synchronous", "all-reduce (ring)", "dense"};
  const plan::Axes ssp{"data", "servers", "staleness 2", "servers", "dense"};
  Comparison comparison;
  comparison.subject = "cnn";
  comparison.facts = {{"machine", "a <machine> & more"}};
  comparison.target_accuracy = 0.85;
  comparison.systems = {{.name = "ring", .axes = ring, .runs = {run(1, 0.90), run(2, 0.92)}},
                        {.name = "ssp, \"bounded\"", .axes = ssp, .runs = {run(1, 0.84), run(2, 0.86)}}};
  for (SystemRun& seen : comparison.systems[1].runs) seen.staleness = Staleness{1.25, 3, {10, 20, 10, 4}};
  return comparison;
}

std::string line_with(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find(word) != std::string::npos) return line;
  return "";
}

TEST(Estimate, IsTheMeanWithItsStandardError) {
  const auto found = estimate({1, 2, 3, NAN});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->mean, 2);
  EXPECT_EQ(found->count, 3);
  EXPECT_NEAR(found->error, 1 / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(estimate({7})->error, 0);
  EXPECT_FALSE(estimate({NAN}));
}

TEST(MeanCurve, GoesAsFarAsAllRuns) {
  System system = two_systems().systems[0];
  system.runs[1].curve.push_back({3, 3000, 3e6, 0.1, 0.99});
  const auto curve = mean_curve(system, Measure::Score);
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_NEAR(curve[1].at.score, 0.91, 1e-12);
  EXPECT_NEAR(curve[1].error, 0.01, 1e-12);
}

TEST(ComparisonTable, SaysOnceWhatIsTheSame) {
  const std::string text = to_text(two_systems());
  EXPECT_NE(text.find("all: parallelism: data; compression: dense"), std::string::npos) << text;
  EXPECT_EQ(line_with(text, "system").find("parallelism"), std::string::npos);
  EXPECT_NE(line_with(text, "system").find("scheduling"), std::string::npos);
  const std::string ring = line_with(text, "ring ");
  EXPECT_NE(ring.find("91.00 ± 1.00 %"), std::string::npos) << text;
  EXPECT_NE(ring.find("3.00 ± 0.00 MiB"), std::string::npos) << text;
  EXPECT_NE(ring.find("20.0 ± 0.0 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("measured"), std::string::npos);
}

TEST(ComparisonTable, WhatNotEverySeedReachedIsSaid) {
  Comparison comparison = two_systems();
  const std::string text = to_text(comparison);
  EXPECT_NE(line_with(text, "ring ").find("2.00 ± 0.00 s"), std::string::npos) << text;
  EXPECT_NE(line_with(text, "ssp").find("2.00 s (1 of 2 seeds)"), std::string::npos) << text;
  comparison.target_accuracy = 0.99;
  EXPECT_NE(line_with(to_text(comparison), "ring ").find("not reached"), std::string::npos);
}

TEST(ComparisonTable, ColumnsThatNobodyFillsAreAbsent) {
  Comparison comparison = two_systems();
  EXPECT_NE(to_text(comparison).find("staleness"), std::string::npos);
  comparison.systems.pop_back();
  comparison.target_accuracy.reset();
  const std::string text = to_text(comparison);
  EXPECT_EQ(text.find("staleness"), std::string::npos);
  EXPECT_EQ(text.find("target"), std::string::npos);
}

TEST(ComparisonTable, AFailureIsARowThatSaysWhy) {
  Comparison comparison = two_systems();
  comparison.systems.push_back({.name = "gossip", .failures = {"rank 1: data: the file is cut short"}});
  EXPECT_NE(to_text(comparison).find("gossip failed: rank 1: data: the file is cut short"),
            std::string::npos);
  EXPECT_NE(line_with(to_csv(comparison), "gossip").find("the file is cut short"), std::string::npos);
  const std::string page = to_page(comparison);
  EXPECT_NE(page.find("<td class=\"failed\">rank 1: data: the file is cut short</td>"), std::string::npos);
}

TEST(ComparisonCsv, HasOneWidthAndQuotesWhatItMust) {
  const std::string csv = to_csv(two_systems());
  std::istringstream lines(csv);
  std::string heading, ring, ssp;
  std::getline(lines, heading);
  std::getline(lines, ring);
  std::getline(lines, ssp);
  EXPECT_EQ(count(heading, ","), count(ring, ","));
  EXPECT_TRUE(ssp.starts_with("\"ssp, \"\"bounded\"\"\",")) << ssp;
  EXPECT_NE(ring.find(",0.91,"), std::string::npos);
  const std::string curves = curves_csv(two_systems());
  EXPECT_EQ(count(curves, "\n"), 9u);
  EXPECT_NE(curves.find("ring,1,1000,1,1000000,0.9,0.7"), std::string::npos) << curves;
}

TEST(ComparisonPage, EveryChartHasItsCurvesAndNothingComesFromOutside) {
  const std::string page = to_page(two_systems());
  for (const char* id : {"accuracy-time", "accuracy-samples", "accuracy-bytes", "loss-time", "loss-samples",
                         "loss-bytes", "step-time", "staleness-1"})
    EXPECT_EQ(count(page, std::string("id=\"") + id + "\""), 1u) << id;
  // Six charts and two legends' swatches of two systems.
  EXPECT_EQ(count(page, "class=\"line\""), 14u);
  EXPECT_EQ(count(page, "class=\"band\""), 6u);  // all seeds have the same losses
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_NE(page.find("a &lt;machine&gt; &amp; more"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme"), std::string::npos);
  EXPECT_EQ(count(page, "<section>"), count(page, "</section>"));
}

TEST(ComparisonPage, LearningCurvesAreFilesOfTheirOwnToo) {
  const std::vector<Picture> pictures = to_pictures(two_systems());
  ASSERT_EQ(pictures.size(), 6u);
  EXPECT_EQ(pictures[0].name, "accuracy-time");
  for (const Picture& picture : pictures) {
    EXPECT_TRUE(picture.svg.starts_with("<svg xmlns=")) << picture.name;
    EXPECT_NE(picture.svg.find("<style>"), std::string::npos) << picture.name;
    EXPECT_EQ(count(picture.svg, "<svg"), 1u) << picture.name;
    EXPECT_EQ(count(picture.svg, "class=\"line\""), 2u) << picture.name;
    // First tests lie 20 points lower: of accuracies that is cut off.
    EXPECT_EQ(count(picture.svg, "(begins at 84, not at 0)"), picture.name.starts_with("accuracy"))
        << picture.name;
  }
  Comparison simulated = two_systems();
  for (System& system : simulated.systems)
    for (SystemRun& run : system.runs) run.curve.clear();
  EXPECT_TRUE(to_pictures(simulated).empty());
}

TEST(ComparisonPage, ASimulationHasNoCurves) {
  Comparison comparison = two_systems();
  comparison.origin = Origin::Simulated;
  comparison.target_accuracy.reset();
  for (System& system : comparison.systems)
    for (SystemRun& seen : system.runs) seen.score = seen.loss = NAN, seen.curve.clear();
  const std::string page = to_page(comparison);
  EXPECT_EQ(page.find("Learning curves"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_NE(page.find("simulated"), std::string::npos);
  EXPECT_NE(page.find("step-time"), std::string::npos);
}

TEST(Comparison, ScoresOfAnotherMetricHaveItsNameAndSense) {
  Comparison comparison = two_systems();
  comparison.target_accuracy.reset();
  comparison.score = {"bits_per_byte", ScoreKind::Unit::Number, ScoreKind::Better::Less};
  EXPECT_NE(line_with(to_text(comparison), "bits per byte").find("loss"), std::string::npos);
  EXPECT_NE(to_csv(comparison).find(",bits_per_byte,bits_per_byte_error,"), std::string::npos);
  EXPECT_EQ(curves_csv(comparison).substr(0, 59),
            "system,seed,samples,seconds,bytes,loss,bits_per_byte\nring,1");
  const auto columns = comparison_columns();
  const auto scored = std::find_if(columns.begin(), columns.end(), [](const ComparisonColumn& column) {
    return column.better == ComparisonColumn::Better::AsScored;
  });
  ASSERT_NE(scored, columns.end());
  EXPECT_EQ(best_system(comparison, *scored), 1);  // 0.85 against 0.91
  EXPECT_EQ(to_pictures(comparison)[0].name, "bits_per_byte-time");
  EXPECT_EQ(to_page(comparison).find("accuracy"), std::string::npos);
}

}  // namespace
}  // namespace taxon::report
