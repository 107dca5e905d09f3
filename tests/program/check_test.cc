// Mistakes planted in sound programs are found.
#include "program/check.h"

#include <gmock/gmock.h>

#include "program/schedule.h"

namespace taxon::program {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Kind = ActionKind;

Program sound() { return make_program(find_schedule("1f1b"), {3, 4}); }

/// Where the action stands in the rank's list.
std::vector<Action>::iterator place(Program& program, int rank, Kind kind, int micro) {
  auto& actions = program.ranks[static_cast<std::size_t>(rank)];
  return std::find_if(actions.begin(), actions.end(),
                      [&](const Action& action) { return action.kind == kind && action.micro == micro; });
}

void erase(Program& program, int rank, Kind kind, int micro) {
  program.ranks[static_cast<std::size_t>(rank)].erase(place(program, rank, kind, micro));
}

TEST(Check, TakesWhatIsSound) { EXPECT_THAT(program_problems(sound()), IsEmpty()); }

TEST(Check, MissesAPass) {
  Program program = sound();
  erase(program, 1, Kind::Forward, 2);
  EXPECT_THAT(program_problems(program), Contains("rank 1: no forward pass of micro-batch 2 at stage 1"));
}

TEST(Check, MissesAGradientOfWeights) {
  Program program = make_program(find_schedule("zb_h1"), {3, 4});
  erase(program, 2, Kind::BackwardWeight, 3);
  EXPECT_THAT(program_problems(program),
              Contains("rank 2: no backward pass to weights of micro-batch 3 at stage 2"));
}

TEST(Check, SeesAStageThatEndsBeforeTheOneBehindIt) {
  Program program{.stages = 2, .micros = 1, .rank_of = {0, 0}};
  program.ranks = {{{Kind::Forward, 0},
                    {Kind::Forward, 1},
                    {Kind::BackwardInput, 1},
                    {Kind::BackwardInput, 0},
                    {Kind::BackwardWeight, 1},
                    {Kind::BackwardWeight, 0}}};
  const char* const why =
      "rank 0: the last gradient of weights of stage 0 stands before that of stage 1: stages end from the "
      "last to the first";
  EXPECT_THAT(program_problems(program), Not(Contains(why)));
  std::swap(program.ranks[0][4], program.ranks[0][5]);
  EXPECT_THAT(program_problems(program), Contains(why));
}

TEST(Check, SeesAPassTwice) {
  Program program = sound();
  const auto at = place(program, 0, Kind::Forward, 1);
  program.ranks[0].insert(at, *at);
  EXPECT_THAT(program_problems(program),
              Contains("rank 0: forward pass of micro-batch 1 at stage 0 comes twice"));
}

TEST(Check, SeesAnInputThatIsNotThere) {
  Program program = sound();
  erase(program, 1, Kind::ReceiveActivation, 0);
  EXPECT_THAT(program_problems(program),
              Contains("rank 1: forward pass of micro-batch 0 at stage 1 stands before its input is there"));
}

TEST(Check, SeesAGradientThatIsNotThere) {
  Program program = sound();
  std::iter_swap(place(program, 0, Kind::Backward, 0), place(program, 0, Kind::ReceiveGradient, 0));
  EXPECT_THAT(program_problems(program), Contains(HasSubstr("before the gradient of its output is there")));
}

TEST(Check, SeesOtherWeightsInTheBackwardPass) {
  Program program = make_program(find_schedule("pipedream"), {3, 6});
  place(program, 0, Kind::Backward, 5)->version += 1;
  EXPECT_THAT(
      program_problems(program),
      Contains("rank 0: backward pass of micro-batch 5 at stage 0 uses version 4 of the weights, and its "
               "forward pass 3"));
}

TEST(Check, SeesWeightsThatNobodyHasMade) {
  Program program = make_program(find_schedule("pipedream"), {3, 6});
  place(program, 1, Kind::Forward, 4)->version = 9;
  EXPECT_THAT(program_problems(program), Contains(HasSubstr("uses version 9 of the weights")));
}

TEST(Check, SeesAnUpdateWithoutExchange) {
  Program program = sound();
  erase(program, 2, Kind::Exchange, 3);
  EXPECT_THAT(program_problems(program), Contains(HasSubstr("stands before the exchange of its gradients")));
}

TEST(Check, SeesAnExchangeThatIsTooEarly) {
  Program program = sound();
  std::iter_swap(place(program, 2, Kind::Exchange, 3), place(program, 2, Kind::Backward, 3));
  EXPECT_THAT(program_problems(program), Contains(HasSubstr("counts 4 gradients, when there are 3")));
}

TEST(Check, MissesAnUpdate) {
  Program program = sound();
  erase(program, 1, Kind::Update, 3);
  EXPECT_THAT(program_problems(program), Contains("rank 1: 0 of 4 micro-batches are in updates of stage 1"));
}

TEST(Check, SeesStagesOfOthers) {
  Program program = sound();
  place(program, 1, Kind::Forward, 0)->stage = 2;
  EXPECT_THAT(program_problems(program), Contains(HasSubstr("is at a stage that the rank does not hold")));
}

TEST(Check, SeesAnotherOrderAtTheOtherEnd) {
  Program program = make_program(find_schedule("gpipe"), {2, 2});
  // Rank 1 takes the second micro-batch first: each list is right by itself.
  auto& actions = program.ranks[1];
  std::swap(actions[0], actions[2]);
  std::swap(actions[1], actions[3]);
  EXPECT_THAT(
      program_problems(program),
      Contains("rank 0 begins with sending of activations of micro-batch 0 at stage 0 to rank 1, which "
               "waits for receipt of activations of micro-batch 1 at stage 1"));
}

TEST(Check, SeesAMessageThatNobodyReceives) {
  Program program = sound();
  erase(program, 1, Kind::SendGradient, 3);
  EXPECT_THAT(program_problems(program), Contains("rank 1 sends 3 messages to rank 0, which receives 4"));
}

/// Two ranks with two stages each, where both wait for the other's first message.
Program crossed() {
  Program program{.stages = 4, .micros = 1, .rank_of = {0, 1, 0, 1}};
  const auto passes = [](int first, int second) {
    return std::vector<Action>{{Kind::Forward, first}, {Kind::Forward, second}};
  };
  program.ranks = {with_transfers(passes(2, 0), program.rank_of),
                   with_transfers(passes(1, 3), program.rank_of)};
  return program;
}

TEST(Deadlock, NamesWhoWaits) {
  EXPECT_THAT(deadlock(crossed(), 100),
              UnorderedElementsAre("rank 0 waits in receipt of activations of micro-batch 0 at stage 2",
                                   "rank 1 waits in receipt of activations of micro-batch 0 at stage 1"));
  EXPECT_EQ(least_room(crossed()), std::nullopt);
}

TEST(Deadlock, DependsOnRoom) {
  // Both send twice before they receive.
  Program program{.stages = 2, .micros = 2, .rank_of = {0, 1}};
  program.ranks = {{{Kind::SendActivation, 0, 0},
                    {Kind::Forward, 0, 0},
                    {Kind::SendActivation, 0, 1},
                    {Kind::Forward, 0, 1},
                    {Kind::ReceiveGradient, 0, 0}},
                   {{Kind::SendGradient, 1, 0},
                    {Kind::Forward, 1, 0},
                    {Kind::ReceiveActivation, 1, 0},
                    {Kind::ReceiveActivation, 1, 1}}};
  EXPECT_THAT(deadlock(program, 0), Not(IsEmpty()));
  EXPECT_THAT(deadlock(program, 1), IsEmpty());  // one of each is on its way, and then both receive
}

}  // namespace
}  // namespace taxon::program
