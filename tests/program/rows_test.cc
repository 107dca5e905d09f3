// What each schedule's paper says of it.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "program/check.h"
#include "program/rows/order.h"
#include "program/schedule.h"
#include "program/shapes.h"
#include "program/timeline.h"

namespace taxon::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Program program_of(std::string_view name, Shape shape, const plan::Options& options = {}) {
  return make_program(find_schedule(name), shape, options);
}

Timeline timeline_of(const Program& program, const StageCost& cost = {}) {
  return evaluate(program, std::vector<StageCost>(static_cast<std::size_t>(program.stages), cost));
}

std::string refusal(std::string_view name, Shape shape, const plan::Options& options = {}) {
  try {
    program_of(name, shape, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return "taken";
}

/// That every pass uses the version that `expected` says.
template <class Expected>
void expect_versions(const Program& program, Expected expected) {
  for (const auto& actions : program.ranks)
    for (const Action& action : actions) {
      if (!computes(action.kind)) continue;
      EXPECT_EQ(action.version, expected(action)) << describe(action);
    }
}

TEST(Bubble, IsExactForFlushes) {
  for (std::string_view name : {"gpipe", "1f1b"})
    for (const Shape& shape : shapes_of(find_schedule(name))) {
      const double p = shape.stages, m = shape.micros;
      EXPECT_NEAR(timeline_of(program_of(name, shape)).bubble(), (p - 1) / (m + p - 1), 1e-12)
          << name << " " << p << " " << m;
    }
}

TEST(Bubble, IsAThirdForZeroBubble) {
  for (const Shape& shape : shapes_of(find_schedule("zb_h1"))) {
    const Timeline plain = timeline_of(program_of("1f1b", shape));
    const Timeline split = timeline_of(program_of("zb_h1", shape));
    for (std::size_t rank = 0; rank < split.ranks.size(); ++rank)
      EXPECT_DOUBLE_EQ(3 * split.ranks[rank].idle, plain.ranks[rank].idle);
    const double p = shape.stages, m = shape.micros;
    EXPECT_NEAR(split.bubble(), (p - 1) / (3 * m + p - 1), 1e-12);
  }
}

TEST(Bubble, OfZeroBubbleIsItsPapersForOtherCosts) {
  // (p - 1)(T_F + T_B - T_W), where gradients of weights take no longer than the others.
  const StageCost cost{.forward = 1, .backward_input = 1.25, .backward_weight = 0.75};
  const Timeline timeline = timeline_of(program_of("zb_h1", {4, 12}), cost);
  EXPECT_NEAR(timeline.ranks[0].idle, 3 * (1 + 1.25 - 0.75), 1e-12);
}

TEST(Bubble, IsDividedByChunks) {
  for (int chunks : {1, 2, 3, 4}) {
    const int p = 4, m = 8;
    const Timeline timeline = timeline_of(program_of("interleaved", {p * chunks, m}, {{"chunks", chunks}}));
    EXPECT_NEAR(timeline.bubble(), (p - 1.0) / (m * chunks + p - 1), 1e-12) << chunks;
  }
}

TEST(Activations, AreAllForGPipe) {
  for (const Shape& shape : shapes_of(find_schedule("gpipe")))
    for (const StageMemory& stage : stage_memory(program_of("gpipe", shape)))
      EXPECT_EQ(stage.activations, shape.micros);
}

TEST(Activations, AreAtMostStagesBehindFor1F1B) {
  const ScheduleRow& row = find_schedule("1f1b");
  for (int stages = 1; stages <= 8; ++stages)
    for (int micros = 1; micros <= 12; ++micros) {  // fewer than stages too, which users are refused
      Program program{.stages = stages, .micros = micros};
      for (int rank = 0; rank < stages; ++rank) program.rank_of.push_back(rank);
      for (int rank = 0; rank < stages; ++rank)
        program.ranks.push_back(with_transfers(row.actions({stages, micros}, rank, {}), program.rank_of));
      ASSERT_THAT(program_problems(program), ::testing::IsEmpty());
      const auto memory = stage_memory(program);
      for (int rank = 0; rank < stages; ++rank)
        EXPECT_EQ(memory[static_cast<std::size_t>(rank)].activations, std::min(stages - rank, micros));
    }
}

TEST(Activations, AreThoseOf1F1BForZeroBubble) {
  for (const Shape& shape : shapes_of(find_schedule("zb_h1")))
    for (int held : rank_activations(program_of("zb_h1", shape))) EXPECT_LE(held, shape.stages);
}

TEST(Activations, OfChunksAreTheirFormulas) {
  const int p = 4, v = 2;
  const Program program = program_of("interleaved", {p * v, 16}, {{"chunks", v}});
  const std::vector<int> held = rank_activations(program);
  for (int rank = 0; rank < p; ++rank)
    EXPECT_EQ(held[static_cast<std::size_t>(rank)], p * v + p - 1 - 2 * rank);
}

TEST(Versions, AreStashedAsPipeDreamSays) {
  constexpr int p = 4;
  const Program program = program_of("pipedream", {p, 12});
  expect_versions(program, [](const Action& a) { return std::max(0, a.micro - (p - 1 - a.stage)); });
  const auto memory = stage_memory(program);
  for (int stage = 0; stage < p; ++stage)
    EXPECT_EQ(memory[static_cast<std::size_t>(stage)].versions, p - stage);
}

TEST(Versions, AreTheSameEverywhereWithVerticalSync) {
  const Program program = program_of("pipedream", {4, 12}, {{"vertical_sync", true}});
  EXPECT_THAT(program_problems(program), ::testing::IsEmpty());
  expect_versions(program, [](const Action& a) { return std::max(0, a.micro - 3); });
}

TEST(Versions, AreTwoFor2BW) {
  for (int per_update : {4, 6, 8})
    for (int updates : {1, 2, 5}) {
      const Program program =
          program_of("pipedream_2bw", {4, per_update * updates}, {{"micros_per_update", per_update}});
      EXPECT_THAT(program_problems(program), ::testing::IsEmpty());
      expect_versions(program, [&](const Action& a) { return std::max(0, a.micro / per_update - 1); });
      for (const StageMemory& stage : stage_memory(program)) EXPECT_LE(stage.versions, 2);
    }
}

TEST(Room, IsNoneForWhatHasOneStageARank) {
  for (std::string_view name : {"gpipe", "1f1b", "zb_h1", "pipedream"})
    EXPECT_EQ(least_room(program_of(name, {4, 8})), 0) << name;
}

TEST(Refusals, AreSentences) {
  EXPECT_THAT(refusal("1f1b", {4, 3}),
              HasSubstr("needs at least as many micro-batches as stages: 3 are fewer than 4"));
  EXPECT_THAT(refusal("gpipe", {2, 1}), HasSubstr("1 are fewer than 2"));
  EXPECT_THAT(refusal("interleaved", {8, 6}), HasSubstr("6 is no multiple of 4 ranks (8 stages, 2 a rank)"));
  EXPECT_THAT(refusal("interleaved", {7, 8}), HasSubstr("7 stages are no multiple of chunks (2)"));
  EXPECT_THAT(refusal("data_parallel", {2, 4}), HasSubstr("one stage, the whole model, not 2"));
  EXPECT_THAT(refusal("pipedream_2bw", {4, 8}, {{"micros_per_update", 2}}), HasSubstr("2 is fewer than 4"));
  EXPECT_THAT(refusal("gpipe", {1 << 20, 1 << 20}), HasSubstr("more than the 100000 passes of a program"));
  EXPECT_THAT(refusal("pipedream_2bw", {4, 9}), HasSubstr("9 micro-batches are no multiple of the 4"));
}

TEST(Refusals, ComeTogether) {
  const std::string text = refusal("interleaved", {0, -1}, {{"chunk", 2}, {"chunks", 0}});
  EXPECT_THAT(text, HasSubstr("chunk is no key of schedule interleaved; did you mean chunks?"));
  EXPECT_THAT(text, HasSubstr("chunks must be a whole number, at least 1 and at most 1024, but is 0"));
  EXPECT_THAT(text, HasSubstr("stages must be at least 1, but are 0"));
  EXPECT_THAT(text, HasSubstr("micro-batches must be at least 1, but are -1"));
}

/// The first stage wants a gradient before it hands over the second micro-batch, the last one that first.
struct Crossed {
  using Options = NoOptions;
  static std::vector<Action> actions(const Shape& shape, int rank, const Options&) {
    std::vector<Action> passes;
    for (int micro = 0; micro < shape.micros; ++micro) {
      passes.push_back({ActionKind::Forward, rank, micro});
      if (rank == 0) passes.push_back({ActionKind::Backward, rank, micro});
    }
    for (int micro = 0; micro < shape.micros && rank > 0; ++micro)
      passes.push_back({ActionKind::Backward, rank, micro});
    return with_flush(passes);
  }
};

TEST(Refusals, OfARowOfOnesOwnWhoseRanksWaitForEachOther) {
  const ScheduleRow own[] = {schedule_row<Crossed>({.name = "crossed"})};
  const plan::Catalogue::Pipeline known = known_pipelines(own).front();
  EXPECT_EQ(known.name, "crossed");
  EXPECT_THAT(known.problems(2, 2, {}),
              testing::ElementsAre("rank 0 waits in receipt of gradients of micro-batch 0 at stage 0",
                                   "rank 1 waits in receipt of activations of micro-batch 1 at stage 1"));
  EXPECT_THAT(known.problems(2, 1, {}), testing::IsEmpty());
}

TEST(Refusals, KnowWhatWasMeant) {
  try {
    find_schedule("gpip");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no schedule \"gpip\"; did you mean gpipe?"));
  }
}

}  // namespace
}  // namespace taxon::program
