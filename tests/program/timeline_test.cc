#include "program/timeline.h"

#include <gmock/gmock.h>

#include "program/check.h"
#include "program/schedule.h"

namespace taxon::program {
namespace {

TEST(Timeline, CountsTransfersOnTheWay) {
  // Down and back through three stages: six passes and four transfers one after the other.
  const Program program = make_program(find_schedule("gpipe"), {3, 3});
  const std::vector<StageCost> costs(
      3, {.forward = 1, .backward_input = 1, .backward_weight = 1, .transfer = 0.5});
  const Timeline timeline = evaluate(program, costs);
  EXPECT_DOUBLE_EQ(timeline.seconds, 3 * (3 + 2) + 4 * 0.5);
}

TEST(Timeline, GivesALinkToOneMessageAtATime) {
  // The first stage is fast, its link slow: the second stage gets a micro-batch every 4 seconds.
  const Program program = make_program(find_schedule("gpipe"), {2, 4});
  const std::vector<StageCost> costs = {{.forward = 1, .transfer = 4}, {.forward = 1}};
  const Timeline timeline = evaluate(program, costs);
  std::vector<double> begins;
  for (const Span& span : timeline.spans)
    if (span.rank == 1 && span.action.kind == ActionKind::Forward) begins.push_back(span.begin);
  EXPECT_THAT(begins, ::testing::ElementsAre(5, 9, 13, 17));
}

TEST(Timeline, IsAsSlowAsTheSlowestStage) {
  const Program program = make_program(find_schedule("1f1b"), {3, 10});
  std::vector<StageCost> costs(3);
  costs[1] = {.forward = 2, .backward_input = 2, .backward_weight = 2};
  const Timeline timeline = evaluate(program, costs);
  // Ten micro-batches of 6 s; 1 s until the first comes, 1 s until its gradient does after two forward
  // passes, and a backward pass of the first stage.
  EXPECT_DOUBLE_EQ(timeline.seconds, 10 * 6 + 1 + 1 + 2);
  EXPECT_DOUBLE_EQ(timeline.ranks[1].idle, 4);
}

TEST(Timeline, ExchangesBesidePassesAndBeforeUpdates) {
  const Program program = make_program(find_schedule("data_parallel"), {1, 2});
  const std::vector<StageCost> costs = {{.exchange = 5, .update = 1}};
  const Timeline timeline = evaluate(program, costs);
  EXPECT_DOUBLE_EQ(timeline.seconds, 2 * 3 + 5 + 1);
  EXPECT_DOUBLE_EQ(timeline.ranks[0].busy, 7);
}

TEST(Timeline, HidesTheExchangeOfAStageThatIsReadyBefore) {
  // The last rank's gradients are complete 2 s before the first one's, for each rank between them.
  const Program program = make_program(find_schedule("1f1b"), {4, 8});
  std::vector<StageCost> costs(4);
  for (std::size_t stage = 1; stage < 4; ++stage) costs[stage].exchange = 2;
  const std::vector<StageCost> none(4);
  EXPECT_DOUBLE_EQ(evaluate(program, costs).seconds, evaluate(program, none).seconds);
}

TEST(Timeline, CountsBytes) {
  const StageCost cost{.activation_bytes = 10, .weight_bytes = 100, .state_bytes = 1000};
  const Timeline flushed =
      evaluate(make_program(find_schedule("1f1b"), {4, 8}), std::vector<StageCost>(4, cost));
  const Timeline stashed =
      evaluate(make_program(find_schedule("pipedream"), {4, 8}), std::vector<StageCost>(4, cost));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_DOUBLE_EQ(flushed.ranks[static_cast<std::size_t>(rank)].peak_bytes, 10 * (4 - rank) + 100 + 1000);
    const int versions = 4 - rank, copies = versions > 1 ? versions + 1 : 1;  // and the master's
    EXPECT_DOUBLE_EQ(stashed.ranks[static_cast<std::size_t>(rank)].peak_bytes,
                     10 * versions + 100 * copies + 1000);
  }
}

TEST(Timeline, OfNothingHasNoBubble) {
  const Program program = make_program(find_schedule("data_parallel"), {1, 1});
  EXPECT_EQ(
      evaluate(program, std::vector<StageCost>{{.forward = 0, .backward_input = 0, .backward_weight = 0}})
          .bubble(),
      0);
}

}  // namespace
}  // namespace taxon::program
