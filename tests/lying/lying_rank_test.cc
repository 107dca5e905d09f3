// Ranks of which one lies: whatever it tells, in whichever message, every run completes or ends with an
// Error. The seeds that are run here are few; TAXON_LIES=N runs N for each way to train (tools/nightly).
#include <gmock/gmock.h>

#include <cstdlib>
#include <limits>
#include <variant>

#include "codec/codec.h"
#include "exchange/server/server_client.h"
#include "exchange/topologies/pairwise.h"
#include "support/lying_transport.h"
#include "train/bytes.h"
#include "train/modes.h"
#include "train/toy_job.h"
#include "train/units.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

struct Way {
  std::string name;
  std::function<void(plan::Plan&)> apply;
  bool saves = false, records = false;  // checkpoints; the order of what workers did
  friend std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }
};

std::vector<Way> all_ways() {
  std::vector<Way> all;
  for (const auto& list : {modes(), combinations(), meetings()})
    for (const Mode& mode : list) all.push_back({mode.name, mode.apply, all.size() % 3 == 0});
  const auto with = [](const plan::LevelPlan& level) {
    return [level](plan::Plan& plan) { plan.exchange.levels = {level}; };
  };
  for (const Mode& mode : std::vector<Mode>{{"in_pairs", with(meets("average", 1, "pairs"))},
                                            {"asynchronous", with(asynchronous())},
                                            {"delay_compensated", with(asynchronous("compensated"))},
                                            {"bounded", with(served(2, 0, 1))},
                                            {"quorum", with(served(1, 2))}}) {
    all.push_back({mode.name, mode.apply, true});
    all.push_back({mode.name + "_recorded", mode.apply, false, true});
  }
  all.push_back({"dedicated_servers",
                 [](plan::Plan& plan) {
                   plan.exchange.levels = {served()};
                   plan.mesh.servers = 2;
                 },
                 true});
  for (const codec::CodecRow& row : codec::codec_table()) {
    const auto coded = [&row](plan::LevelPlan level) {
      level.codec.name = row.name;
      level.codec.options = codec::options_for(row, {{"density", 0.2},
                                                     {"drawn", 0.5},
                                                     {"columns", 1},
                                                     {"block", 64},
                                                     {"threshold", 0.01},
                                                     {"rank", 1}});
      level.codec.masking = row.sends_entries;
      return [level](plan::Plan& plan) {
        plan.exchange.levels = {level};
        plan.precision = {DType::Float32, DType::Float32};
      };
    };
    all.push_back({"coded_" + std::string(row.name), coded({}), row.biased});
    plan::LevelPlan answers = served();
    if (codec::stands_alone(row)) answers.codec.answer = "int8";
    if (codec::stands_alone(row) || codec::asks(row))
      all.push_back({"served_" + std::string(row.name), coded(answers)});
  }
  return all;
}

int seeds() {
  const char* asked = std::getenv("TAXON_LIES");
  return asked != nullptr ? std::atoi(asked) : 24;
}

/// What all ranks of a run share.
struct Lies {
  const TrainingJob* job;
  TrainingResult* result;
  Rank liar;
  const Lie* lie;  // null: it only counts
  MessageCounts counts;
};

task::Task<void> train_beside_a_liar(Lies* lies, comm::Runtime* runtime) {
  LyingTransport transport(runtime->transport, runtime->rank() == lies->liar ? lies->lie : nullptr);
  comm::Runtime own{transport, runtime->device, runtime->recorder, runtime->carrier};
  auto training = train_over(lies->job, &own, lies->result);
  co_await training;
  if (runtime->rank() == lies->liar) lies->counts = transport.counts();
}

class LyingJob : public Train {
 protected:
  static constexpr int kRanks = 4;

  /// The failure, or null.
  std::exception_ptr run(Lies* lies, const Way& way, const plan::ClusterModel& cluster) {
    plan::Plan plan = toy_plan();
    plan.length.steps = 5;
    plan.checkpoint.every_steps = 2;
    plan.report.trace = way.records;
    way.apply(plan);
    data::MemoryStorage storage;
    TrainingJob job = this->job(kRanks, plan);
    job.record_order = way.records;
    if (way.saves) job.storage = &storage, job.out = "run";
    TrainingResult result;
    result.outcomes.resize(kRanks);
    result.recorders.resize(kRanks);
    lies->job = &job;
    lies->result = &result;
    sim::World world(cluster, kRanks, {.limit = std::chrono::hours(1)});
    sim::RankBody body = [&](comm::Runtime& runtime) { return train_beside_a_liar(lies, &runtime); };
    return world.run(body).failure;
  }
};

class LyingRank : public LyingJob, public ::testing::WithParamInterface<Way> {};

const char* word_of(const std::exception_ptr& failure) {
  if (!failure) return "completes";
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    // A rank that only waits is told by nobody from one that is slow: the deadline ends it.
    for (ErrorKind kind : {ErrorKind::Mismatch, ErrorKind::Transport, ErrorKind::PeerLost,
                           ErrorKind::Deadline, ErrorKind::Diverged})
      if (error.kind() == kind) return to_string(kind);
    ADD_FAILURE() << to_string(error.kind()) << ": " << error.what();
    return "another error";
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return "no Error";
  }
}

TEST_P(LyingRank, EndsNoRunButWithAnError) {
  std::map<std::string, int> ends;
  for (int liar : {0, 2}) {
    for (const plan::ClusterModel& cluster : {one_host(kRanks), separate_hosts(kRanks)}) {
      Lies honest{nullptr, nullptr, Rank(liar), nullptr, {}};
      ASSERT_STREQ(word_of(run(&honest, GetParam(), cluster)), "completes");
      std::vector<std::pair<MessageKind, std::uint64_t>> kinds(honest.counts.begin(), honest.counts.end());
      for (int seed = 0; seed < seeds() / 4; ++seed) {
        Rng rng(static_cast<std::uint64_t>(seed), GetParam().name, static_cast<std::uint64_t>(liar));
        const auto& [kind, count] = kinds[rng.below(kinds.size())];
        const Lie lie{kind, rng.below(count), rng.below(2) == 0 ? 1 : count, rng.below(1U << 30)};
        SCOPED_TRACE(testing::Message() << "rank " << liar << ", seed " << seed << ": operation "
                                        << static_cast<int>(kind.operation) << ", unit " << kind.unit
                                        << ", message " << kind.message << ", number " << lie.first);
        Lies lies{nullptr, nullptr, Rank(liar), &lie, {}};
        ++ends[word_of(run(&lies, GetParam(), cluster))];
      }
    }
  }
  for (const auto& [end, count] : ends) RecordProperty(end, count);
}

INSTANTIATE_TEST_SUITE_P(Ways, LyingRank, ::testing::ValuesIn(all_ways()),
                         [](const auto& info) { return info.param.name; });

/// One word of a message that can't be.
struct Word {
  std::string name, way;
  int liar;
  MessageKind kind;
  std::size_t place;  // of 8 bytes
  std::variant<std::int64_t, double> value;
  std::string says;  // the error
  friend std::ostream& operator<<(std::ostream& out, const Word& word) { return out << word.name; }
};

std::vector<Word> words() {
  using net::Operation;
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const MessageKind pair{Operation::Serve, exchange::kPairsUnit, 0};
  const MessageKind head{Operation::Serve, 0, exchange::ServerWire::HandedInHead};
  const MessageKind answer{Operation::Serve, 0, exchange::ServerWire::AnswerHead};
  const MessageKind control{Operation::Serve, exchange::kServerControlUnit, exchange::ServerWire::Control};
  const MessageKind report{Operation::Serve, train::kLedgerUnit, 0},
      totals{Operation::Serve, train::kLedgerUnit, 1};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {
      {"pair_kind", "in_pairs", 1, pair, 0, 7L, "kind 7"},
      {"pair_bucket", "in_pairs", 1, pair, 1, std::int64_t{1} << 40, "bucket 1099511627776"},
      {"pair_bucket_below", "in_pairs", 1, pair, 1, -1L, "bucket -1"},
      {"kind", "asynchronous", 2, head, exchange::ServerWire::KindOf, 5L, "kind 5"},
      {"clock", "asynchronous", 2, head, exchange::ServerWire::Clock, kLargest, "clock"},
      {"clock_below", "bounded", 2, head, exchange::ServerWire::Clock, -1L, "clock -1"},
      {"base", "asynchronous", 2, head, exchange::ServerWire::Base, -kLargest, "updates"},
      {"base_to_come", "asynchronous", 2, head, exchange::ServerWire::Base, 1000L, "1000 updates"},
      {"number", "asynchronous", 2, head, exchange::ServerWire::Number, 1000L, "contribution 1000"},
      {"samples", "asynchronous", 2, head, exchange::ServerWire::Samples, kLargest, "samples"},
      {"mean_over", "asynchronous", 2, head, exchange::ServerWire::MeanOver, 0L, "mean over 0"},
      {"version", "asynchronous", 2, answer, exchange::ServerWire::Version, -2L, "version -2"},
      {"common_clock", "asynchronous", 2, answer, exchange::ServerWire::CommonClock, kLargest, "clock"},
      {"control", "asynchronous", 2, control, 0, 9L, "kind 9"},
      {"reported_samples", "asynchronous", 2, report, 1, nan, "samples"},
      {"reported_stop", "asynchronous", 2, report, 3, -4.0, "a stop of -4"},
      {"reported_hits", "asynchronous", 2, report, 4, -4.0, "counts of -4"},
      {"total_samples", "asynchronous", 0, totals, 0, -1.0, "samples"},
      {"calls", "asynchronous", 0, totals, 3, 1e300, "and 1e+300 calls"},
      {"total_hits", "asynchronous", 0, totals, 4, -1.0, "counts of -1"},
  };
}

class ToldWrong : public LyingJob, public ::testing::WithParamInterface<Word> {};

TEST_P(ToldWrong, IsAMismatchThatNamesTheRank) {
  const Word& word = GetParam();
  const std::vector<Way> ways = all_ways();
  const auto way =
      std::find_if(ways.begin(), ways.end(), [&](const Way& one) { return one.name == word.way; });
  ASSERT_NE(way, ways.end());
  Lie lie{word.kind, 0, 1000};
  lie.edit = [&word](std::vector<std::byte>& bytes) {
    std::visit(
        [&](auto value) {
          ASSERT_GE(bytes.size(), 8 * word.place + sizeof value);
          std::memcpy(bytes.data() + 8 * word.place, &value, sizeof value);
        },
        word.value);
  };
  Lies lies{nullptr, nullptr, Rank(word.liar), &lie, {}};
  const std::exception_ptr failure = run(&lies, *way, separate_hosts(kRanks));
  ASSERT_TRUE(failure) << "nobody lied";
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Mismatch) << error.what();
    EXPECT_EQ(error.context().rank, Rank(word.liar)) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(word.says));
  }
}

INSTANTIATE_TEST_SUITE_P(Words, ToldWrong, ::testing::ValuesIn(words()),
                         [](const auto& info) { return info.param.name; });

TEST(ToldBytes, OfAnySizeTakeNoMemoryThatIsNotThere) {
  for (std::int64_t size :
       {std::int64_t{-1}, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::max()}) {
    train::Packer packer;
    packer.number(size);
    const std::vector<std::byte> bytes = packer.take();
    EXPECT_THROW(train::Unpacker(bytes, Rank(3)).text(), Error);
    EXPECT_THROW(train::Unpacker(bytes, Rank(3)).numbers(), Error);
    EXPECT_THROW(train::Unpacker(bytes, Rank(3)).bytes(), Error);
  }
}

TEST(ToldTensors, AreOnesThatAFileCanHold) {
  const checkpoint::LogicalTensor good{"w", DType::Float32, {2, 3}, std::vector<std::byte>(24)};
  auto with = [&good](auto change) {
    checkpoint::LogicalTensor tensor = good;
    change(tensor);
    return tensor;
  };
  using Tensor = checkpoint::LogicalTensor;
  for (const std::vector<Tensor>& tensors :
       std::vector<std::vector<Tensor>>{{good, good},
                                        {with([](Tensor& tensor) { tensor.type = static_cast<DType>(77); })},
                                        {with([](Tensor& tensor) {
                                          tensor.shape = {2, 4};
                                        })},
                                        {with([](Tensor& tensor) {
                                          tensor.shape = {-2, -3};
                                        })},
                                        {with([](Tensor& tensor) {
                                          tensor.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
                                        })},
                                        {with([](Tensor& tensor) { tensor.is_flags = true; })},
                                        {with([](Tensor& tensor) { tensor.name = "\xff"; })},
                                        {with([](Tensor& tensor) { tensor.name = "a\nb"; })}}) {
    train::Packer packer;
    packer.tensors(tensors);
    const std::vector<std::byte> bytes = packer.take();
    try {
      train::Unpacker(bytes, Rank(3)).tensors();
      ADD_FAILURE() << tensors[0].name << " was believed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Mismatch);
      EXPECT_EQ(error.context().rank, Rank(3));
    }
  }
  train::Packer packer;
  packer.tensors({good, with([](Tensor& tensor) { tensor.name = "größe"; })});
  const std::vector<std::byte> bytes = packer.take();
  EXPECT_EQ(train::Unpacker(bytes).tensors().size(), 2u);
}

}  // namespace
}  // namespace taxon::test
