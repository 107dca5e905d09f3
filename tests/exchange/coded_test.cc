// Every codec on a level: the same bits at every rank, nothing lost, and as many bytes as announced.
#include "exchange/compression/coded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "codec/codec.h"
#include "exchange/compression/aggregation.h"
#include "exchange/extensions.h"
#include "exchange/levels/levels.h"
#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

constexpr int kSteps = 6;

/// Options that change what travels, when and by what, beside the rows of the table.
struct Variant {
  std::string_view name;
  void (*change)(plan::LevelPlan&);
};
constexpr Variant kVariants[] = {
    {"sketch_reused",
     [](plan::LevelPlan& level) {
       level.codec.options.set("reuse", 3), level.codec.options.set("candidates", 1);
     }},
    {"sketch_halved", [](plan::LevelPlan& level) { level.codec.options.set("table", "bfloat16"); }},
    {"sketch_of_blocks", [](plan::LevelPlan& level) { level.codec.options.set("neighbours", 16); }},
    {"sketch_of_blocks_reused",
     [](plan::LevelPlan& level) {
       level.codec.options.set("neighbours", 16), level.codec.options.set("reuse", 3),
           level.codec.options.set("candidates", 1);
     }},
    {"sketch_by_tree", [](plan::LevelPlan& level) { level.collective = "tree"; }},
    {"sketch_by_ring", [](plan::LevelPlan& level) { level.collective = "ring"; }},
    {"sketch_of_parts_in_8_bits",
     [](plan::LevelPlan& level) {
       level.codec.name = "split_sketch", level.codec.options.set("table", "int8"),
       level.codec.options.set("bits", 8);
     }},
    {"sketch_of_parts_in_4_bits",
     [](plan::LevelPlan& level) {
       level.codec.name = "split_sketch", level.codec.options.set("table", "int4");
     }},
    {"sketch_of_a_number",
     [](plan::LevelPlan& level) {
       level.codec.options.set("entries", 30), level.codec.options.set("column_count", 100);
     }},
    {"merged_entries_of_a_number_in_8_bits",
     [](plan::LevelPlan& level) {
       level.codec.name = "packed_gtop_k", level.codec.options.set("entries", 30),
       level.codec.options.set("bits", 8);
     }},
};

plan::LevelPlan coded_level(std::string_view codec, std::string_view topology = "all_reduce") {
  plan::LevelPlan level;
  level.topology = topology;
  level.codec.name = codec;
  for (const Variant& variant : kVariants)
    if (variant.name == codec) {
      level.codec.name = "count_sketch";
      variant.change(level);
    }
  level.codec.options.set("density", 0.05);
  level.codec.options.set("columns", 0.2);
  level.codec.feedback = plan::FeedbackKind::Memory;
  return level;
}

/// What every rank saw.
struct Seen {
  std::vector<std::vector<float>> sums;  // [step], of their owners
  std::vector<double> pushed, state;     // over all ranks
  double bytes = 0;                      // that ranks sent for one step, their mean
};

std::vector<float> contribution(std::size_t count, int rank, int step) {
  Rng rng(static_cast<std::uint64_t>(step), "contribution", static_cast<std::uint64_t>(rank));
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>((2 * rng.uniform() - 1) * std::exp(4 * rng.uniform()));
  return values;
}

/// Bytes of a case's values: one vector, or tensors with something between them.
struct CodedCase {
  plan::LevelPlan level;
  int ranks;
  std::size_t count;
  std::vector<codec::Piece> pieces = {};
  Extensions own = {};
  codec::Extent extent() const { return {count, pieces}; }
};

constexpr std::size_t kBegin = 16;  // of the range, which is not the whole arena

std::vector<tensor::Slot> slots_of(const CodedCase& c) {
  std::vector<tensor::Slot> slots;
  for (const codec::Piece& piece : c.pieces) {
    const auto size = static_cast<std::int64_t>(piece.range.size);
    const auto columns = static_cast<std::int64_t>(piece.columns);
    slots.push_back({"t",
                     columns > 0 ? std::vector{size / columns, columns} : std::vector{size},
                     {kBegin + piece.range.begin, piece.range.size}});
  }
  return slots;
}
bool is_between(const CodedCase& c, std::size_t place) {
  return !c.pieces.empty() && std::none_of(c.pieces.begin(), c.pieces.end(), [&](const codec::Piece& piece) {
    return place >= piece.range.begin && place < piece.range.end();
  });
}

task::Task<void> reduce_often(const CodedCase* c, net::Transport* transport, Seen* seen) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < c->ranks; ++r) everybody.emplace_back(r);
  comm::Communicator all(runtime, "data", everybody);
  auto establish = all.establish();
  co_await establish;
  Levels levels(all, {c->level}, {.seed = 5, .own = c->own});
  tensor::Arena values(*transport, DType::Float32, c->count + 32);
  levels.prepare(values, slots_of(*c));
  const std::vector<LevelAlgorithms> rows(1);
  const Range range{kBegin, c->count};
  const std::uint64_t before = transport->traffic().bytes_sent;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> mine = contribution(c->count, runtime.rank().value(), step);
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (is_between(*c, i)) mine[i] = 0;
    auto target = values.values<float>(range);
    std::copy(mine.begin(), mine.end(), target.begin());
    for (std::size_t i = 0; i < mine.size(); ++i) seen->pushed[i] += mine[i];
    auto reduce = levels.reduce({3, 0, range, &rows, step}, values);
    const double weight = co_await reduce;
    EXPECT_EQ(weight, c->ranks);
    auto& expected = seen->sums[static_cast<std::size_t>(step)];
    const Range owned = levels.owned(range);
    for (std::size_t i = owned.begin - kBegin; i < owned.end() - kBegin; ++i) {
      if (std::isnan(expected[i])) expected[i] = target[i];
      EXPECT_EQ(target[i], expected[i]) << "step " << step << ", value " << i;
    }
  }
  seen->bytes += static_cast<double>(transport->traffic().bytes_sent - before) / kSteps / c->ranks;
  for (const Topology::StateArena& state : levels.state()) {
    if (state.name != "level 0 errors") continue;
    for (std::size_t i = 0; i < c->count; ++i) seen->state[i] += state.values->values<float>(range)[i];
  }
  auto close = comm::find_row(net::Operation::Barrier, "dissemination").run(all, comm::Call{});
  co_await close;
}

Seen reduce_in_group(const CodedCase& c) {
  const std::vector<float> unknown(c.count, std::numeric_limits<float>::quiet_NaN());
  Seen seen{std::vector<std::vector<float>>(kSteps, unknown), std::vector<double>(c.count),
            std::vector<double>(c.count)};
  test::run_ranks(c.ranks, [&](net::Transport& t) { return reduce_often(&c, &t, &seen); },
                  {.share_memory = false});
  return seen;
}

/// A codec and a topology that carries it.
struct Carried {
  std::string codec, topology;
};
class Coded : public testing::TestWithParam<Carried> {
 protected:
  static plan::LevelPlan level() { return coded_level(GetParam().codec, GetParam().topology); }
};

TEST_P(Coded, GivesOwnersTheSameSumAndLosesNothing) {
  for (int ranks : {1, 2, 3, 4, 5, 8})
    for (std::size_t count : {1UL, 2UL, 50UL, 3000UL}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " values");
      const CodedCase c{level(), ranks, count};
      const Seen seen = reduce_in_group(c);
      double largest = 0;
      for (double value : seen.pushed) largest = std::max(largest, std::abs(value));
      for (std::size_t i = 0; i < count; ++i) {
        double applied = 0;
        for (const auto& sum : seen.sums) applied += sum[i];
        ASSERT_NEAR(applied + seen.state[i], seen.pushed[i], 1e-4 * (1 + largest)) << i;
      }
    }
}

/// Two matrices, a vector and a part of a matrix whose last row is not whole, with zeros between them.
std::vector<codec::Piece> some_tensors() {
  return {{{0, 40 * 25}, 25}, {{1008, 60}, 0}, {{1072, 90 * 8}, 8}, {{1900, 31 * 35 + 10}, 35}};
}

/// What lies between tensors is no parameter's: whatever came there would be updated with, and clipped by.
TEST_P(Coded, LeavesZeroWhatLiesBetweenTensors) {
  for (int ranks : {1, 2, 3, 4}) {
    const CodedCase c{level(), ranks, 3000, some_tensors()};
    const Seen seen = reduce_in_group(c);
    double largest = 0;
    for (double value : seen.pushed) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < c.count; ++i) {
      double applied = 0;
      for (const auto& sum : seen.sums) {
        applied += sum[i];
        if (is_between(c, i)) {
          ASSERT_EQ(sum[i], 0) << i;
        }
      }
      if (is_between(c, i)) {
        ASSERT_EQ(seen.state[i], 0) << i;
      }
      ASSERT_NEAR(applied + seen.state[i], seen.pushed[i], 1e-4 * (1 + largest)) << i;
    }
  }
}

TEST_P(Coded, SendsWhatItAnnounces) {
  for (int ranks : {2, 3, 4, 8}) {
    const CodedCase c{level(), ranks, 3000, some_tensors()};
    const Seen seen = reduce_in_group(c);
    EXPECT_NEAR(coded_bytes_sent(c.level, c.extent(), ranks), seen.bytes, 0.02 * seen.bytes + 64) << ranks;
  }
}

TEST_P(Coded, LeavesSmallBucketsDense) {
  CodedCase c{level(), 3, 100};
  c.level.codec.dense_below = 101;
  const Seen seen = reduce_in_group(c);
  for (std::size_t i = 0; i < c.count; ++i) {
    double applied = 0;
    for (const auto& sum : seen.sums) applied += sum[i];
    EXPECT_NEAR(applied, seen.pushed[i], 1e-3);
    EXPECT_EQ(seen.state[i], 0);
  }
}

std::vector<Carried> all_carried() {
  std::vector<Carried> all;
  for (const codec::CodecRow& row : codec::codec_table()) {
    all.push_back({std::string(row.name), "all_reduce"});
    if (codec::stands_alone(row)) all.push_back({std::string(row.name), "sharded"});
  }
  for (const Variant& variant : kVariants) all.push_back({std::string(variant.name), "all_reduce"});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Codecs, Coded, testing::ValuesIn(all_carried()),
                         [](const testing::TestParamInfo<Carried>& info) {
                           return info.param.codec + "_" + info.param.topology;
                         });

TEST(CodedOwnRows, AreFoundBeforeThoseOfTheTable) {
  // One's own codec of the table's name, which sends everything as half the bytes.
  codec::CodecRow own[] = {codec::find_codec("bf16")};
  own[0].name = "top_k";
  CodedCase c{coded_level("top_k"), 3, 500};
  c.level.codec.feedback = plan::FeedbackKind::Auto;
  const Seen sparse = reduce_in_group(c);
  c.own.codecs = own;
  const Seen dense = reduce_in_group(c);
  auto zeros = [](const std::vector<float>& sum) { return std::count(sum.begin(), sum.end(), 0.0F); };
  EXPECT_GT(zeros(sparse.sums[0]), 400);
  EXPECT_EQ(zeros(dense.sums[0]), 0);
  EXPECT_EQ(dense.state, std::vector<double>(c.count));  // no memory: the row says that it is not biased
}

std::vector<std::size_t> entries_of(const std::vector<float>& sum) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < sum.size(); ++i)
    if (sum[i] != 0) places.push_back(i);
  return places;
}

TEST(CodedReuse, BeginsWithASketchAfterDenseSteps) {
  CodedCase c{coded_level("sketch_reused"), 2, 3000};
  c.level.codec.dense_steps = 1;
  const Seen seen = reduce_in_group(c);
  EXPECT_GT(entries_of(seen.sums[0]).size(), 2900u);
  for (int step : {1, 2, 3}) {
    const auto places = entries_of(seen.sums[static_cast<std::size_t>(step)]);
    EXPECT_EQ(places.size(), 150u) << step;
    EXPECT_GT(places.back(), 2500u) << "the first ones, whatever they are";
  }
}

TEST(CodedReuse, OneSketchServesSeveralStepsWithOtherEntriesInEach) {
  CodedCase c{coded_level("sketch_reused"), 2, 3000};
  const Seen seen = reduce_in_group(c);
  auto entries = [&](int step) { return entries_of(seen.sums[static_cast<std::size_t>(step)]); };
  std::vector<std::size_t> all;
  for (int step : {0, 1, 2}) {
    const auto places = entries(step);
    EXPECT_EQ(places.size(), 150u) << step;
    all.insert(all.end(), places.begin(), places.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  // Two of three steps send no sketch.
  plan::LevelPlan each = c.level;
  each.codec.options.set("reuse", 1);
  const double sketch = coded_bytes_sent(each, c.extent(), 2) - 150 * sizeof(float);
  EXPECT_NEAR(coded_bytes_sent(c.level, c.extent(), 2), sketch / 3 + 150 * sizeof(float), 1);
}

TEST(CodedWarmUp, SendsTheDensityOfTheStep) {
  CodedCase c{coded_level("top_k"), 2, 2000};
  c.level.codec.warmup_density = {1, 0.5};
  c.level.codec.warmup_steps = 2;
  const Seen seen = reduce_in_group(c);
  auto entries = [&](int step) {
    const auto& sum = seen.sums[static_cast<std::size_t>(step)];
    return std::count_if(sum.begin(), sum.end(), [](float value) { return value != 0; });
  };
  EXPECT_EQ(entries(0), 2000);
  EXPECT_EQ(entries(1), 2000);
  EXPECT_GE(entries(2), 1000);
  EXPECT_LT(entries(3), 2000);
  EXPECT_GE(entries(4), 100);
  EXPECT_LE(entries(5), 200);
}

void expect_momentum_of_the_rule(const CodedCase& c, const std::string& way) {
  const Seen seen = reduce_in_group(c);
  std::vector<double> velocity(c.count);
  for (int step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const std::vector<float> mine = contribution(c.count, rank, step);
      for (std::size_t i = 0; i < c.count; ++i) velocity[i] = (rank == 0 ? 0.5 : 1) * velocity[i] + mine[i];
    }
    for (std::size_t i = 0; i < c.count; ++i)
      ASSERT_NEAR(seen.sums[static_cast<std::size_t>(step)][i], velocity[i], 1e-3)
          << way << ", step " << step;
  }
}

TEST(CodedMomentum, IsThatOfTheRuleWhenEverythingTravels) {
  for (const char* topology : {"all_reduce", "sharded"}) {
    CodedCase c{coded_level("top_k"), 2, 40};
    c.level.topology = topology;
    c.level.codec.momentum = 0.5;
    CodedCase entries = c, small = c, warm = c;
    entries.level.codec.options.set("density", 1);
    entries.level.codec.masking = false;
    small.level.codec.dense_below = 1000;
    warm.level.codec.dense_steps = 1000;
    expect_momentum_of_the_rule(entries, "as entries");
    expect_momentum_of_the_rule(small, "dense_below");
    expect_momentum_of_the_rule(warm, "dense_steps");
  }
}

}  // namespace
}  // namespace taxon::exchange
