#include "faults/search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "data/memory_storage.h"
#include "exchange/topology.h"
#include "faults/planted.h"
#include "net/faulty/faulty.h"
#include "optim/rule.h"

namespace taxon::test {
namespace {

using faults::Ending;
using testing::HasSubstr;
using testing::IsEmpty;

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

class FaultSearch : public testing::Test {
 protected:
  FaultSearch() {
    job_.recipe = plan::read_plan(TAXON_SOURCE_DIR "/recipes/blobs-perceptron.yaml");
    job_.known.models = names_of(model::model_table());
    job_.known.datasets = names_of(data::dataset_table());
    job_.known.rules = names_of(optim::rule_table());
    job_.known.schedules = optim::schedule_names();
    job_.known.topologies = exchange::known_topologies();
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
TEST_F(FaultSearch, HundredsOfSchedulesHaveNoFinding) {
  const faults::Tally tally = faults::search(job_, {1, 300}, [](const faults::Trial& trial) {
    EXPECT_THAT(trial.findings, IsEmpty())
        << "seed " << trial.seed << ", " << faults::describe(trial.shape) << "\n"
        << fmt::format("{}", fmt::join(describe(trial.schedule), "\n"));
    return faults::GoOn::Yes;
  });
  EXPECT_EQ(tally.trials, 300u);
  // The schedules do reach into the runs, in every way.
  for (Ending ending : {Ending::Complete, Ending::Lost, Ending::Stuck})
    EXPECT_GT(tally.endings.at(ending), 5u) << to_string(ending);
  EXPECT_GT(tally.resumed, 5u);
}

TEST_F(FaultSearch, ALostAcknowledgementIsFoundAndReplayedByItsSeed) {
  job_.wrap = [](net::Transport& inner) -> std::unique_ptr<net::Transport> {
    return std::make_unique<Forgetful>(inner, from_seconds(0.02));
  };
  const std::uint64_t seed = find(300);
  ASSERT_GT(seed, 0u) << "nobody noticed";
  const std::string first = findings(seed);
  EXPECT_THAT(first, HasSubstr("can't finish although every link is whole"));
  EXPECT_THAT(first, HasSubstr("waits for rank"));
  EXPECT_EQ(findings(seed), first);
  job_.wrap = nullptr;
  EXPECT_EQ(findings(seed), "");  // it is the bug, not the schedule
}

TEST_F(FaultSearch, AChangedByteIsFoundAsReplicasThatDiffer) {
  job_.wrap = [](net::Transport& inner) -> std::unique_ptr<net::Transport> {
    return std::make_unique<net::FaultyTransport>(inner, net::FaultyOptions{.seed = 5, .corrupt = 3e-4});
  };
  std::string all;
  faults::search(job_, {1, 100}, [&](const faults::Trial& trial) {
    all += fmt::format("{}\n", fmt::join(trial.findings, "\n"));
    return faults::GoOn::Yes;
  });
  EXPECT_THAT(all, HasSubstr("with other weights than a run without faults"));
}

TEST_F(FaultSearch, AnUnfinishableRunNamesTheBucketAndTheStep) {
  for (std::uint64_t seed = 1; seed < 1000; ++seed) {
    const faults::Trial trial = faults::try_seed(job_, seed);
    if (trial.ending != Ending::Stuck || trial.seen.ranks[0].weights.size() < 3) continue;
    const std::string text = fmt::format("{}", fmt::join(trial.seen.report.hang->lines, "\n"));
    if (text.find("bucket") == std::string::npos) continue;
    EXPECT_THAT(text, testing::ContainsRegex(
                          "rank [0-9] waits for rank [0-9] in [a-z_]+, bucket [0-9]+ \\([a-z., ]+.*\\) by "
                          "[a-z_]+, step [0-9]+, round"));
    return;
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
