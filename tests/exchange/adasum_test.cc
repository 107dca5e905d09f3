#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "exchange/levels/topology.h"
#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

constexpr std::size_t kElements = 4;
using Vector = std::array<double, kElements>;

/// A(a, b) as it is published.
Vector combined(const Vector& a, const Vector& b) {
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < kElements; ++i) aa += a[i] * a[i], bb += b[i] * b[i], ab += a[i] * b[i];
  Vector out{};
  for (std::size_t i = 0; i < kElements; ++i)
    out[i] = (1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i];
  return out;
}

struct Case {
  std::vector<Vector> gradients;  // [rank]
  std::vector<Vector> results;    // [rank]
};

task::Task<void> combine(Case* c, net::Transport* transport) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (std::size_t r = 0; r < c->gradients.size(); ++r) everybody.emplace_back(static_cast<int>(r));
  comm::Communicator all(runtime, "data", everybody);
  auto establish = all.establish();
  co_await establish;
  const plan::LevelPlan level;
  auto adasum = find_topology("adasum").make(all, {.level = level});
  constexpr Range kRange{8, kElements};
  tensor::Arena arena(*transport, DType::Float64, 16);
  const auto rank = static_cast<std::size_t>(transport->rank().value());
  auto values = arena.values<double>(kRange);
  const auto members = static_cast<double>(c->gradients.size());
  for (std::size_t i = 0; i < kElements; ++i) values[i] = c->gradients[rank][i] / members;
  auto reducing = adasum->reduce({3, 0, kRange, {}, 0}, arena);
  const double weight = co_await reducing;
  EXPECT_EQ(weight, members);
  std::copy(values.begin(), values.end(), c->results[rank].begin());
  for (double outside : arena.values<double>({0, 8})) EXPECT_EQ(outside, 0);
}

std::vector<Vector> run(std::vector<Vector> gradients) {
  Case c{gradients, gradients};
  test::RankBody body = [&](net::Transport& transport) { return combine(&c, &transport); };
  test::run_ranks(static_cast<int>(gradients.size()), body, {});
  return c.results;
}

void expect_near(const Vector& a, const Vector& b) {
  for (std::size_t i = 0; i < kElements; ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
}

TEST(Adasum, AddsWhatIsOrthogonalAndAveragesWhatIsParallel) {
  for (const Vector& result : run({{1, 0, 2, 0}, {0, 3, 0, -1}})) expect_near(result, {1, 3, 2, -1});
  for (const Vector& result : run({{1, 2, 3, 4}, {1, 2, 3, 4}})) expect_near(result, {1, 2, 3, 4});
  // Parallel: (1 - 3/2) a + (1 - 1/6) 3a = 2a, their mean.
  for (const Vector& result : run({{1, 2, 3, 4}, {3, 6, 9, 12}})) expect_near(result, {2, 4, 6, 8});
}

TEST(Adasum, CombinesTwoAndTwoWithTheSameBitsEverywhere) {
  const std::vector<Vector> g = {{1, 2, -1, 0.5}, {0.25, -2, 3, 1}, {1, 1, 1, 1}, {-3, 0.5, 2, 7}};
  const auto results = run(g);
  expect_near(results[0], combined(combined(g[0], g[1]), combined(g[2], g[3])));
  for (const Vector& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Adasum, LeavesAloneWhatIsAloneOrZero) {
  EXPECT_EQ(run({{1, 2, 3, 4}})[0], (Vector{1, 2, 3, 4}));
  for (const Vector& result : run({{0, 0, 0, 0}, {1, 2, 3, 4}})) expect_near(result, {1, 2, 3, 4});
}

TEST(Adasum, RefusesWhatIsNoPowerOfTwo) {
  try {
    run({{1}, {2}, {3}});
    FAIL() << "three members";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_NE(std::string(error.what()).find("there are 3"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace taxon::exchange
