#include "faults/search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "checkpoint/safetensors.h"
#include "data/memory_storage.h"
#include "exchange/extensions.h"
#include "faults/conservation.h"
#include "faults/planted.h"

namespace taxon::test {
namespace {

using faults::Ending;
using testing::HasSubstr;
using testing::IsEmpty;

/// Longer than any run without faults, so that only those with faults pause.
constexpr Duration kPause = std::chrono::milliseconds(5);

class FaultSearch : public testing::Test {
 protected:
  FaultSearch() {
    job_.recipe = plan::read_plan(TAXON_SOURCE_DIR "/recipes/blobs-perceptron.yaml");
    job_.known = exchange::catalogue();
    job_.known.models = model::known_models();
    job_.known.tasks = model::known_tasks();
    job_.known.datasets = data::known_datasets();
    job_.known.transports = {"auto"};
    datasets_ = data::open_datasets(job_.recipe.data, data::MemoryStorage());
    job_.datasets = &datasets_;
    job_.make_model = [this](const plan::Plan& plan, int rank) {
      // Other ranks start from other weights: the first broadcast must replace them.
      return model::make_model({.plan = &plan.model,
                                .shape = datasets_.train->shape(),
                                .compute = plan.precision.compute,
                                .seed = static_cast<std::uint64_t>(rank),
                                .rank = rank});
    };
  }
  /// The first of so many seeds with a finding; 0: none.
  std::uint64_t find(std::uint64_t seeds) const {
    std::uint64_t found = 0;
    faults::search(job_, {1, seeds}, [&](const faults::Trial& trial) {
      if (trial.findings.empty()) return faults::GoOn::Yes;
      found = trial.seed;
      return faults::GoOn::No;
    });
    return found;
  }
  std::string findings(std::uint64_t seed) const {
    return fmt::format("{}", fmt::join(faults::try_seed(job_, seed).findings, "\n"));
  }
  data::Datasets datasets_;
  faults::Job job_;
};

/// The same that `taxon simulate --faults` does by the ten thousand.
class FaultSchedules : public FaultSearch, public testing::WithParamInterface<faults::Seeds> {};

TEST_P(FaultSchedules, HaveNoFinding) {
  std::set<std::string> disciplines;
  const faults::Tally tally = faults::search(job_, GetParam(), [&](const faults::Trial& trial) {
    disciplines.insert(trial.shape.settings.front());
    EXPECT_THAT(trial.findings, IsEmpty())
        << "seed " << trial.seed << ", " << faults::describe(trial.shape) << "\n"
        << fmt::format("{}", fmt::join(describe(trial.schedule), "\n"));
    return faults::GoOn::Yes;
  });
  EXPECT_EQ(tally.all.trials, 100u);
  EXPECT_GT(disciplines.size(), 25u);
  // The schedules do reach into the runs. (One in a hundred is survived, of which LostWorker is about.)
  for (Ending ending : {Ending::Complete, Ending::Lost, Ending::Stuck})
    EXPECT_TRUE(tally.all.endings.count(ending)) << to_string(ending);
  EXPECT_GT(tally.all.resumed, 0u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, FaultSchedules,
                         testing::Values(faults::Seeds{1, 100}, faults::Seeds{101, 200},
                                         faults::Seeds{201, 300}),
                         [](const auto& info) { return "From" + std::to_string(info.param.first); });

TEST_F(FaultSearch, ALostAcknowledgementIsFoundAndReplayedByItsSeed) {
  job_.wrap = [](net::Transport& inner) -> std::unique_ptr<net::Transport> {
    return std::make_unique<Forgetful>(inner, kPause);
  };
  const std::uint64_t seed = find(300);
  ASSERT_GT(seed, 0u) << "nobody noticed";
  const std::string first = findings(seed);
  EXPECT_THAT(first, testing::AnyOf(HasSubstr("can't finish although every link is whole"),
                                    HasSubstr("without any fault: The run can never finish")));
  EXPECT_THAT(first, HasSubstr("waits for rank"));
  EXPECT_EQ(findings(seed), first);
  job_.wrap = nullptr;
  EXPECT_EQ(findings(seed), "");  // it is the bug, not the schedule
}

TEST_F(FaultSearch, AChangedSumIsFoundAsReplicasThatDiffer) {
  job_.wrap = [](net::Transport& inner) -> std::unique_ptr<net::Transport> {
    return std::make_unique<Scribbling>(inner, kPause);
  };
  const std::uint64_t seed = find(300);
  ASSERT_GT(seed, 0u) << "nobody noticed";
  EXPECT_THAT(findings(seed),
              testing::ContainsRegex(
                  "rank [0-9] (began step [0-9]|ended) with other weights|parameters differ between ranks"));
  job_.wrap = nullptr;
  EXPECT_EQ(findings(seed), "");
}

/// Meetings move nothing in sum, whoever comes first, and a changed message does.
TEST_F(FaultSearch, AChangedMeetingIsFoundWhereNobodyKnowsWhatTheWeightsShouldBe) {
  for (const char* levels : {"[{topology: servers, rule: elastic, rate: 0.9, staleness: -1, apply: 1}]",
                             "[{rule: elastic, period: 2, rate: 0.9, topology: sharded}]",
                             "[{topology: gossip, rule: average, graph: random}]"}) {
    SCOPED_TRACE(levels);
    data::MemoryStorage storage;
    faults::RunSetup setup;
    setup.plan = plan::override_plan(job_.recipe, {fmt::format("exchange.levels={}", levels),
                                                   "optimiser.rule=sgd", "checkpoint.every_steps=3"});
    setup.cluster = faults::make_cluster({3, "separate hosts", {}});
    setup.ranks = 3;
    setup.storage = &storage;
    job_.wrap = nullptr;
    const auto well = faults::perform(job_, setup);
    EXPECT_EQ(faults::check_sums(setup.plan, well, storage).value_or("well"), "well");
    job_.wrap = [](net::Transport& inner) -> std::unique_ptr<net::Transport> {
      return std::make_unique<Scribbling>(inner, std::chrono::microseconds(10));
    };
    data::MemoryStorage another;
    setup.storage = &another;
    const auto changed = faults::perform(job_, setup);
    EXPECT_THAT(faults::check_sums(setup.plan, changed, another).value_or("well"),
                HasSubstr("meetings moved the sum"));
  }
}

/// Pushes leave members with weights of their own, and keep the weighted mean alone.
TEST_F(FaultSearch, PushesMayMoveTheSumOfReplicas) {
  data::MemoryStorage storage;
  faults::RunSetup setup;
  setup.plan =
      plan::override_plan(job_.recipe, {"exchange.levels=[{topology: gossip, rule: average, graph: push}]",
                                        "optimiser.rule=sgd", "checkpoint.every_steps=3"});
  setup.cluster = faults::make_cluster({3, "separate hosts", {}});
  setup.ranks = 3;
  setup.storage = &storage;
  const auto seen = faults::perform(job_, setup);
  EXPECT_EQ(faults::check_sums(setup.plan, seen, storage).value_or("well"), "well");
}

struct Loss {
  const char* name;
  const char* levels;
};
class LostWorker : public FaultSearch, public testing::WithParamInterface<Loss> {
 protected:
  faults::SimulatedRun lose(int rank, double at) {
    faults::RunSetup setup;
    setup.plan = plan::override_plan(
        job_.recipe, {fmt::format("exchange.levels={}", GetParam().levels), "mesh.servers=2",
                      "length.steps=40", "evaluation.every_epochs=0.5", "checkpoint.every_steps=6"});
    setup.cluster = faults::make_cluster({6, "separate hosts", {}});
    setup.cluster.detection = 2e-4;
    setup.ranks = 6;
    if (at > 0) setup.cluster.faults.push_back({.kind = plan::FaultKind::Kill, .rank = rank, .at = at});
    setup.limit = std::chrono::seconds(60);
    storage_ = std::make_unique<data::MemoryStorage>();
    setup.storage = storage_.get();
    auto seen = faults::perform(job_, setup);
    plan_ = setup.plan;
    return seen;
  }
  double length() { return to_seconds(lose(0, 0).report.time); }
  /// The perceptron's buffer of the exported model: samples of a worker, in the mean.
  double samples_of_a_worker() {
    for (const auto& tensor : checkpoint::read_safetensors(*storage_, "run/model.safetensors"))
      if (tensor.name == "seen")
        return as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()))[0];
    return 0;
  }
  std::unique_ptr<data::MemoryStorage> storage_;
  plan::Plan plan_;
};

TEST_P(LostWorker, LeavesTheRestTraining) {
  const double length = this->length();
  const auto notice = testing::MatchesRegex("rank 2 was lost: .* reported .* 3 workers go on");
  std::vector<double> parts;
  for (int sixtieths = 12; sixtieths < 48; ++sixtieths) parts.push_back(sixtieths / 60.0);
  const std::size_t losses = parts.size();
  // The end, where all come together for the last time.
  for (int part = 0; part < 30; ++part) parts.push_back(0.97 + 0.001 * part);
  std::size_t survived = 0;
  double most = 0;  // share of the samples that the three workers that are left had
  for (const double part : parts) {
    SCOPED_TRACE(part);
    const auto seen = lose(2, part * length);
    if (faults::ending_of(seen) == Ending::Complete) continue;  // it had ended
    if (faults::ending_of(seen) != Ending::Survived) {
      // While all are together nobody can be done without, and nobody says otherwise.
      EXPECT_EQ(faults::ending_of(seen), Ending::Lost);
      EXPECT_THAT(faults::message_of(seen.report.failure), HasSubstr("rank 2 was lost"));
      EXPECT_THAT(seen.ranks[0].notices, testing::Not(testing::Contains(notice)));
      continue;
    }
    survived += part < 0.9;
    most = std::max(most, 3 * samples_of_a_worker() / static_cast<double>(seen.ranks[0].outcome->samples));
    for (std::size_t rank : {0, 1, 3, 4, 5}) {
      ASSERT_TRUE(seen.ranks[rank].outcome);
      EXPECT_EQ(seen.ranks[rank].outcome->parameter_hash, seen.ranks[0].outcome->parameter_hash);
      EXPECT_EQ(testing::Value(seen.ranks[rank].notices, testing::Contains(notice).Times(1)), rank == 0);
    }
    EXPECT_THAT(seen.ranks[0].outcome->lost, testing::ElementsAre(Rank(2)));
    EXPECT_GE(seen.ranks[0].outcome->samples, 40 * 24 - 200);
    EXPECT_THAT(faults::check(plan_, {}, seen, seen), IsEmpty());
  }
  EXPECT_GE(survived, losses / 4);
  EXPECT_GT(most, 0.7);
}

TEST_P(LostWorker, ButALostServerOrRankZeroEndsTheRun) {
  const double length = this->length();
  for (int rank : {0, 4, 5}) {
    const auto seen = lose(rank, 0.4 * length);
    EXPECT_EQ(faults::ending_of(seen), Ending::Lost) << rank;
    EXPECT_EQ(seen.report.first_culprit, Rank(rank));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Disciplines, LostWorker,
    testing::Values(Loss{"asynchronous", "[{topology: servers, staleness: -1, apply: 1}]"},
                    Loss{"bounded", "[{topology: servers, staleness: 2, apply: 1}]"},
                    Loss{"quorum", "[{topology: servers, quorum: 2, apply: 2}]"},
                    Loss{"softsync", "[{topology: servers, staleness: -1, apply: 2}]"},
                    Loss{"elastic",
                         "[{topology: servers, rule: elastic, rate: 0.9, staleness: -1, apply: 1}]"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(FaultSearch, AnUnfinishableRunNamesTheBucketAndTheStep) {
  const std::regex in_training(
      "rank [0-9] waits for rank [0-9] in [a-z_]+, bucket [0-9]+ \\([a-z0-9., ]+\\)( by [a-z_, ]+)?, step "
      "[0-9]+, "
      "round.*");
  const std::regex beside_it(
      "rank [0-9] waits for rank [0-9] in [a-z_]+, (what stands for the model, |the parameters of |the "
      "optimiser's state of |a "
      "replica's state of )bucket [0-9]+ \\([a-z0-9., ]+\\), round.*");
  // A server listens to whatever step comes next.
  const std::regex listening(
      "rank [0-9] waits for rank [0-9] in server, bucket [0-9]+ \\([a-z0-9., ]+\\), round.*");
  for (std::uint64_t seed = 1; seed < 1000; ++seed) {
    const faults::Trial trial = faults::try_seed(job_, seed);
    if (trial.ending != Ending::Stuck || trial.seen.ranks[0].weights.size() < 3) continue;
    bool stuck_in_training = false;
    for (const std::string& line : trial.seen.report.hang->lines) {
      if (line.find("bucket") == std::string::npos) continue;
      stuck_in_training = stuck_in_training || line.find(", step ") != std::string::npos;
      EXPECT_TRUE(std::regex_search(line, in_training) || std::regex_search(line, beside_it) ||
                  std::regex_search(line, listening))
          << "seed " << seed << ": " << line;
    }
    if (stuck_in_training) return;
  }
  FAIL() << "no schedule was stuck in a bucket";
}

TEST(Seeds, AreReadFromText) {
  EXPECT_EQ(faults::parse_seeds("17").first, 17u);
  EXPECT_EQ(faults::parse_seeds("17").last, 17u);
  EXPECT_EQ(faults::parse_seeds("1..10000").last, 10000u);
  for (const char* wrong : {"", "..", "1..", "1...3", "9..3", "x"})
    EXPECT_THROW(faults::parse_seeds(wrong), Error) << wrong;
}

}  // namespace
}  // namespace taxon::test
