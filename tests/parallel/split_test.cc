#include "parallel/split.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "parallel/balance.h"

namespace taxon::parallel {
namespace {

Boundary between(std::string_view producer, std::string_view consumer) {
  const auto found = boundary(find_split(producer), find_split(consumer));
  EXPECT_TRUE(found) << producer << " to " << consumer;
  return found.value_or(Boundary{});
}

void expect(Boundary found, Movement forward, Movement backward) {
  EXPECT_EQ(found.forward, forward);
  EXPECT_EQ(found.backward, backward);
}

TEST(Split, HasTheFiveBoundariesOfMlsl) {
  // Partial sums, to the same distribution; to all members; to samples.
  expect(between("inputs", "inputs"), Movement::ReduceScatter, Movement::AllGather);
  expect(between("inputs", "none"), Movement::AllReduce, Movement::None);
  expect(between("inputs", "samples"), Movement::ReduceScatter, Movement::AllGather);
  // Samples to features, and whole features to samples.
  expect(between("samples", "inputs"), Movement::AllToAll, Movement::AllToAll);
  expect(between("outputs", "samples"), Movement::AllToAll, Movement::AllToAll);
}

TEST(Split, HasThoseOfPclDnnAndMegatron) {
  expect(between("outputs", "outputs"), Movement::AllGather, Movement::ReduceScatter);
  // A pair: one all-reduce each way, none in the middle.
  expect(between("none", "outputs"), Movement::None, Movement::AllReduce);
  expect(between("outputs", "inputs"), Movement::None, Movement::None);
  expect(between("inputs", "none"), Movement::AllReduce, Movement::None);
}

TEST(Split, SendsTheFirstTermOfTheBalanceEquations) {
  // Gather forward and reduction backward, but for each member's own part.
  const Layer fc = linear("fc", {4096, 4096});
  const BalanceInput input{.workers = 16, .batch = 256};
  const double bytes = 4.0 * 4096 * 256, members = 16;
  const Boundary found = between("outputs", "outputs");
  EXPECT_DOUBLE_EQ(moved_bytes(found.forward, bytes, 16) + moved_bytes(found.backward, bytes, 16),
                   exchanged_bytes(fc, input, 1) * (members - 1) / members);
}

TEST(Split, EveryPairHasABoundaryOrNone) {
  for (const SplitRow& a : split_table())
    for (const SplitRow& b : split_table()) EXPECT_TRUE(boundary(a, b)) << a.name << " to " << b.name;
  EXPECT_FALSE(movement(kReplicated, kPartial));
  EXPECT_FALSE(movement(kByFeatures, kPartial));
}

/// A matrix of samples by features over two members, as each placement has it.
struct Held {
  std::vector<std::vector<double>> members;
};
using Matrix = std::vector<double>;  // 4 x 4
constexpr std::size_t kSide = 4;

bool is_mine(Placement at, std::size_t member, std::size_t sample, std::size_t feature) {
  const std::size_t index = at.dimension == Dimension::Samples ? sample : feature;
  return at.holding != Holding::Sharded || index / (kSide / 2) == member;
}

/// What the members have, elements of others as 0.
Held place(const Matrix& whole, Placement at) {
  Held held;
  for (std::size_t member = 0; member < 2; ++member) {
    Matrix mine(whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const double share = at.holding == Holding::Partial ? (member == 0 ? 0.25 : 0.75) : 1;
      if (is_mine(at, member, i / kSide, i % kSide)) mine[i] = share * whole[i];
    }
    held.members.push_back(mine);
  }
  return held;
}

/// By the movement's name alone; Slice and scatters know the target.
Held move(const Held& from, Movement how, Placement to) {
  const auto& [a, b] = std::pair(from.members[0], from.members[1]);
  Matrix sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  if (how == Movement::None) return from;
  if (how == Movement::Slice) sum = a;
  Held moved{{sum, sum}};
  for (std::size_t member = 0; member < 2; ++member)
    for (std::size_t i = 0; i < sum.size(); ++i)
      if (!is_mine(to, member, i / kSide, i % kSide)) moved.members[member][i] = 0;
  return moved;
}

TEST(Movements, BringTensorsWhereTheyAreWanted) {
  Matrix whole(kSide * kSide);
  std::iota(whole.begin(), whole.end(), 1);
  int tried = 0;
  for (Placement from : {kReplicated, kPartial, kBySamples, kByFeatures})
    for (Placement to : {kReplicated, kBySamples, kByFeatures}) {
      const auto how = movement(from, to);
      ASSERT_TRUE(how);
      EXPECT_EQ(move(place(whole, from), *how, to).members, place(whole, to).members);
      ++tried;
    }
  EXPECT_EQ(tried, 12);
}

TEST(Split, RowsDescribeThemselves) {
  std::set<std::string_view> names;
  for (const SplitRow& row : split_table()) {
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_FALSE(row.sentence.empty());
    EXPECT_FALSE(row.source.empty());
  }
  EXPECT_THROW(find_split("diagonal"), Error);
}

}  // namespace
}  // namespace taxon::parallel
