#include "report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace taxon::report {
namespace {

using testing::HasSubstr;
using testing::Not;

ProgressState some_progress() {
  return {.step = 587,
          .epoch = 1.25,
          .epochs = 3,
          .samples = 75'000,
          .total_samples = 180'000,
          .loss = 0.41237,
          .rate = 0.04371,
          .samples_per_second = 2511};
}

TEST(ProgressLine, SaysWhereTheRunStands) {
  EXPECT_EQ(progress_line(some_progress(), 0),
            "epoch 1.25/3  step 587  loss 0.4124  lr 0.04371  2,511 samples/s  ETA 41.8 s");
}

TEST(ProgressLine, FitsIntoEveryWidthAndDropsWholeFields) {
  std::string whole = progress_line(some_progress(), 0);
  for (int width = 1; width < 120; ++width) {
    std::string line = progress_line(some_progress(), width);
    EXPECT_LE(line.size(), static_cast<std::size_t>(width));
    EXPECT_TRUE(whole.starts_with(line));
    EXPECT_FALSE(line.ends_with(' '));
  }
  EXPECT_EQ(progress_line(some_progress(), 25), "epoch 1.25/3  step 587");
  EXPECT_EQ(progress_line(some_progress(), static_cast<int>(whole.size())), whole);
}

TEST(ProgressLine, BeforeTheFirstSpeedThereIsNoEstimate) {
  ProgressState state = some_progress();
  state.samples_per_second = 0;
  EXPECT_THAT(progress_line(state, 0), HasSubstr("ETA -"));
}

TEST(ProgressLine, MarksThousands) {
  ProgressState state = some_progress();
  for (auto [speed, text] : std::initializer_list<std::pair<double, const char*>>{
           {999, " 999 samples"}, {1000, " 1,000 samples"}, {1234567, " 1,234,567 samples"}}) {
    state.samples_per_second = speed;
    EXPECT_THAT(progress_line(state, 0), HasSubstr(text));
  }
}

struct Terminal {
  std::string text;
  std::function<void(const std::string&)> write() {
    return [this](const std::string& piece) { text += piece; };
  }
};

TEST(Progress, OffATerminalAPlainLineEveryFewSeconds) {
  Terminal terminal;
  Progress progress({.every_seconds = 2}, terminal.write());
  std::string line = progress_line(some_progress(), 0) + "\n";
  progress.update(some_progress(), 0);
  EXPECT_EQ(terminal.text, line);
  progress.update(some_progress(), 1.9);
  EXPECT_EQ(terminal.text, line) << "too early";
  progress.update(some_progress(), 2.0);
  EXPECT_EQ(terminal.text, line + line);
  progress.say("saved");
  progress.finish();
  EXPECT_EQ(terminal.text, line + line + "saved\n");
  EXPECT_THAT(terminal.text, Not(HasSubstr("\x1b")));
}

TEST(Progress, OnATerminalOneLineIsRedrawnInPlace) {
  Terminal terminal;
  Progress progress({.style = ProgressOptions::Style::Live, .width = [] { return 40; }}, terminal.write());
  std::string line =
      progress_line(some_progress(), 39);  // the last column stays free: some terminals wrap there
  progress.update(some_progress(), 0);
  progress.update(some_progress(), 0.1);
  EXPECT_EQ(terminal.text, line) << "not faster than the eye";
  progress.update(some_progress(), 0.3);
  EXPECT_EQ(terminal.text, line + "\r\x1b[K" + line);
  progress.say("saved");
  EXPECT_EQ(terminal.text, line + "\r\x1b[K" + line + "\r\x1b[Ksaved\n");
  progress.finish();
  EXPECT_TRUE(terminal.text.ends_with("saved\n")) << "no line is open";
}

TEST(Progress, ALineThatWrappedInANarrowerWindowIsClearedFromAllItsRows) {
  Terminal terminal;
  int width = 70;
  Progress progress({.style = ProgressOptions::Style::Live, .width = [&] { return width; }},
                    terminal.write());
  progress.update(some_progress(), 0);
  const std::string line = progress_line(some_progress(), 69);
  ASSERT_EQ(terminal.text, line);
  ASSERT_GT(line.size(), 40u);
  width = 20;  // the terminal has wrapped it: its cursor is rows below the line's beginning
  progress.update(some_progress(), 1);
  EXPECT_EQ(terminal.text, line + "\x1b[" + std::to_string((line.size() - 1) / 20) + "A\r\x1b[J" +
                               progress_line(some_progress(), 19));
  const std::string before = terminal.text;
  progress.say("saved");
  EXPECT_EQ(terminal.text, before + "\r\x1b[Ksaved\n");
}

TEST(Progress, WhatIsNoNumberIsNan) {
  ProgressState state = some_progress();
  state.loss = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(progress_line(state, 0), HasSubstr("loss nan  "));
  EXPECT_EQ(decimal(-0.5, 2), "-0.50");
}

TEST(Progress, FinishEndsTheLiveLine) {
  Terminal terminal;
  Progress progress({.style = ProgressOptions::Style::Live}, terminal.write());
  progress.update(some_progress(), 0);
  progress.finish();
  progress.finish();
  EXPECT_EQ(terminal.text, progress_line(some_progress(), 99) + "\n");
}

TEST(Progress, ColoursOnlyWhenAsked) {
  Terminal plain, coloured;
  Progress without({.style = ProgressOptions::Style::Live, .colour = false}, plain.write());
  Progress with({.style = ProgressOptions::Style::Live, .colour = true}, coloured.write());
  without.update(some_progress(), 0);
  with.update(some_progress(), 0);
  EXPECT_THAT(plain.text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(coloured.text, "\x1b[36m" + plain.text + "\x1b[0m");
}

}  // namespace
}  // namespace taxon::report
