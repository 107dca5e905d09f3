#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "exchange/levels/topology.h"
#include "exchange/topologies/graph.h"
#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

/// shares[i][j]: of member i's values, what goes to member j.
std::vector<std::vector<double>> matrix(const GraphRow& graph, int size, std::int64_t round) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<std::vector<double>> shares(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    Neighbours at = graph.at(static_cast<int>(i), size, round, 7);
    const double share = 1.0 / static_cast<double>(at.to.size() + 1);
    shares[i][i] += share;
    for (int to : at.to) shares[i][static_cast<std::size_t>(to)] += share;
  }
  return shares;
}

class Graph : public ::testing::TestWithParam<GraphRow> {};

TEST_P(Graph, KeepsTheMeanWhereItIsBalancedAndAgreesOnItsEdges) {
  for (int size = 1; size <= 17; ++size)
    for (std::int64_t round = 0; round < 12; ++round) {
      auto shares = matrix(GetParam(), size, round);
      std::size_t sent = 0, heard = 0;
      bool balanced = true;
      for (int i = 0; i < size; ++i) {
        const Neighbours at = GetParam().at(i, size, round, 7);
        sent += at.to.size();
        heard += at.from.size();
        balanced = balanced && at.to.size() == at.from.size();
        for (int to : at.to)
          balanced = balanced && GetParam().at(to, size, round, 7).to.size() == at.to.size();
        for (int to : at.to) {
          EXPECT_NE(to, i);
          auto from = GetParam().at(to, size, round, 7).from;
          EXPECT_EQ(std::count(from.begin(), from.end(), i), 1);
        }
      }
      EXPECT_EQ(sent, heard);
      EXPECT_TRUE(balanced || !GetParam().balanced) << size << " " << round;
      for (std::size_t j = 0; j < shares.size(); ++j) {
        double column = 0, row_sum = 0;
        for (const auto& row : shares) column += row[j];
        for (double share : shares[j]) row_sum += share;
        EXPECT_NEAR(row_sum, 1, 1e-15) << size << " " << round << " " << j;
        EXPECT_TRUE(!balanced || std::abs(column - 1) < 1e-15) << size << " " << round << " " << j;
      }
    }
}

/// The slowest part of any disagreement shrinks: after enough rounds all have the mean.
TEST_P(Graph, Mixes) {
  for (int size = 2; size <= 16; ++size) {
    std::vector<double> sums(static_cast<std::size_t>(size)), weights(sums.size(), 1.0);
    std::iota(sums.begin(), sums.end(), 0.0);
    for (std::int64_t round = 0; round < 2000; ++round) {
      auto shares = matrix(GetParam(), size, round);
      for (std::vector<double>* mixed : {&sums, &weights}) {
        std::vector<double> next(mixed->size(), 0.0);
        for (std::size_t i = 0; i < next.size(); ++i)
          for (std::size_t j = 0; j < next.size(); ++j) next[j] += shares[i][j] * (*mixed)[i];
        *mixed = next;
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
      EXPECT_NEAR(sums[i] / weights[i], (size - 1) / 2.0, 1e-6) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, Graph, ::testing::ValuesIn(graph_table().begin(), graph_table().end()),
                         [](const auto& info) { return std::string(info.param.name); });

struct Mixing {
  int ranks = 1, rounds = 0;
  plan::LevelPlan level;
  std::span<const GraphRow> graphs = {};
  std::vector<double> values, weights;  // [rank], afterwards
};

/// Every rank starts with its own number, in elements that a bucket would have.
task::Task<void> mix(Mixing* mixing, net::Transport* transport) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < mixing->ranks; ++r) everybody.emplace_back(r);
  comm::Communicator all(runtime, "data", everybody);
  auto establish = all.establish();
  co_await establish;
  auto gossip =
      find_topology("gossip").make(all, {.level = mixing->level, .seed = 5, .graphs = mixing->graphs});
  EXPECT_EQ(gossip->stateful() == nullptr, find_graph(mixing->level.graph, mixing->graphs).balanced);
  constexpr Range kRange{16, 1000};
  tensor::Arena arena(*transport, DType::Float64, 1040);
  const auto rank = static_cast<std::size_t>(transport->rank().value());
  auto values = arena.values<double>(kRange);
  for (double& value : values) value = static_cast<double>(rank * rank);
  double weight = 1;
  for (int round = 0; round < mixing->rounds; ++round) {
    auto reducing = gossip->reduce({3, 0, kRange, {}, round}, arena);
    weight = co_await reducing;
    for (double& value : values) value /= weight;
  }
  for (double value : values) EXPECT_EQ(value, values[0]);
  for (double outside : arena.values<double>({0, 16})) EXPECT_EQ(outside, 0);
  for (double outside : arena.values<double>({1016, 24})) EXPECT_EQ(outside, 0);
  mixing->values[rank] = values[0];
  mixing->weights[rank] = weight;
}

void run(Mixing* mixing) {
  const auto n = static_cast<std::size_t>(mixing->ranks);
  mixing->values.assign(n, 0);
  mixing->weights.assign(n, 0);
  test::RankBody body = [&](net::Transport& transport) { return mix(mixing, &transport); };
  test::run_ranks(mixing->ranks, body, {});
}

TEST(Gossip, AnExponentialGraphAveragesExactlyInAsManyRoundsAsItHasBits) {
  for (int bits : {1, 2, 3, 4}) {
    Mixing mixing{.ranks = 1 << bits, .rounds = bits};
    run(&mixing);
    const double mean = std::accumulate(mixing.values.begin(), mixing.values.end(), 0.0) / mixing.ranks;
    for (double value : mixing.values) EXPECT_EQ(value, mean) << bits;
    EXPECT_EQ(mean, (mixing.ranks - 1) * (2.0 * mixing.ranks - 1) / 6) << bits;
  }
}

TEST(Gossip, WeightsSumToTheNumberOfRanksAndTheWeightedMeanStays) {
  for (const GraphRow& graph : graph_table())
    for (int ranks : {2, 3, 5, 6}) {
      Mixing mixing{.ranks = ranks, .rounds = 7};
      mixing.level.graph = graph.name;
      run(&mixing);
      double mass = 0, sum = 0, expected = 0;
      for (int r = 0; r < ranks; ++r) {
        const auto at = static_cast<std::size_t>(r);
        mass += mixing.weights[at];
        sum += mixing.weights[at] * mixing.values[at];
        expected += r * r;
      }
      EXPECT_NEAR(mass, ranks, 1e-12) << graph.name << " " << ranks;
      EXPECT_NEAR(sum, expected, 1e-9) << graph.name << " " << ranks;
    }
}

/// Everybody talks to member 0.
Neighbours star(int member, int size, std::int64_t, std::uint64_t) {
  if (member > 0) return {{0}, {0}};
  Neighbours all;
  for (int other = 1; other < size; ++other) all.to.push_back(other);
  return {all.to, all.to};
}

/// Members hear from as many as they send to, and yet their weights differ.
TEST(Gossip, AStarKeepsTheWeightedMeanAndMayNotSayThatItIsBalanced) {
  constexpr GraphRow kStar[] = {{"star", star}}, kBalanced[] = {{"star", star, true}};
  Mixing mixing{.ranks = 4, .rounds = 7, .graphs = kStar};
  mixing.level.graph = "star";
  run(&mixing);
  double mass = 0, sum = 0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    mass += mixing.weights[rank];
    sum += mixing.weights[rank] * mixing.values[rank];
  }
  EXPECT_NEAR(mass, 4, 1e-12);
  EXPECT_NEAR(sum, 0 + 1 + 4 + 9, 1e-9);
  EXPECT_GT(mixing.weights[0], 1.1);
  mixing.graphs = kBalanced;
  mixing.rounds = 1;
  EXPECT_THROW(run(&mixing), Error);
}

/// A group's every member would ask for every other's neighbours.
TEST(Gossip, AsksNothingOfAGraphBeforeItsFirstRound) {
  constexpr GraphRow kUnasked[] = {{"unasked", [](int, int, std::int64_t, std::uint64_t) -> Neighbours {
                                      ADD_FAILURE();
                                      return {};
                                    }}};
  Mixing mixing{.ranks = 2, .graphs = kUnasked};
  mixing.level.graph = "unasked";
  run(&mixing);
}

/// Blot et al.: who sends keeps half of its weight, and who hears has the weighted mean.
TEST(Gossip, APushHalvesTheSendersWeight) {
  const int ranks = 5;
  std::vector<double> sums, weights(ranks, 1.0);
  for (int r = 0; r < ranks; ++r) sums.push_back(r * r);
  for (int rounds : {1, 2, 9}) {
    Mixing mixing{.ranks = ranks, .rounds = rounds};
    mixing.level.graph = "push";
    run(&mixing);
    std::vector<double> x = sums, a = weights;
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> to_x(ranks, 0.0), to_a(ranks, 0.0);
      for (int r = 0; r < ranks; ++r) {
        const auto from = static_cast<std::size_t>(r);
        const auto to = static_cast<std::size_t>(find_graph("push").at(r, ranks, round, 5).to.at(0));
        a[from] /= 2;
        to_x[to] += a[from] * x[from];
        to_a[to] += a[from];
      }
      for (std::size_t r = 0; r < x.size(); ++r) {
        x[r] = (a[r] * x[r] + to_x[r]) / (a[r] + to_a[r]);
        a[r] += to_a[r];
      }
    }
    for (std::size_t r = 0; r < x.size(); ++r) {
      EXPECT_NEAR(mixing.values[r], x[r], 1e-12) << rounds;
      EXPECT_NEAR(mixing.weights[r], a[r], 1e-12) << rounds;
    }
  }
}

/// Lian et al.: disagreement shrinks per round by the second largest eigenvalue, (1 + 2 cos(2 pi / n)) / 3 on
/// a ring.
TEST(Gossip, ARingsConsensusDecaysAsItsSpectrumSays) {
  const int ranks = 6;
  auto disagreement = [&](int rounds) {
    Mixing mixing{.ranks = ranks, .rounds = rounds};
    mixing.level.graph = "ring";
    run(&mixing);
    const double mean = std::accumulate(mixing.values.begin(), mixing.values.end(), 0.0) / ranks;
    double sum = 0;
    for (double value : mixing.values) sum += (value - mean) * (value - mean);
    return std::sqrt(sum);
  };
  const double rho = (1 + 2 * std::cos(2 * M_PI / ranks)) / 3;
  EXPECT_NEAR(disagreement(24) / disagreement(20), std::pow(rho, 4), 1e-6);
}

}  // namespace
}  // namespace taxon::exchange
