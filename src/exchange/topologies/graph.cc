#include "exchange/topologies/graph.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/rng.h"

namespace taxon::exchange {
namespace {

/// Rounds in which distances of 1, 2, 4, ... reach everybody.
int rounds_of(int size) { return std::bit_width(static_cast<unsigned>(size - 1)); }

Neighbours none() { return {}; }

Neighbours ring(int member, int size, std::int64_t, std::uint64_t) {
  if (size == 1) return none();
  const int next = (member + 1) % size, before = (member + size - 1) % size;
  if (next == before) return {{next}, {next}};
  return {{before, next}, {before, next}};
}

Neighbours at_distance(int member, int size, int distance) {
  return {{(member + distance) % size}, {(member + size - distance) % size}};
}

Neighbours exponential(int member, int size, std::int64_t round, std::uint64_t) {
  if (size == 1) return none();
  return at_distance(member, size, 1 << (round % rounds_of(size)));
}

/// Members in an order that depends on `use` alone.
std::vector<int> shuffled(int size, std::uint64_t seed, std::int64_t context) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  Rng rng(seed, "gossip", static_cast<std::uint64_t>(context));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

int position(const std::vector<int>& order, int member) {
  return static_cast<int>(std::find(order.begin(), order.end(), member) - order.begin());
}

Neighbours dissemination(int member, int size, std::int64_t round, std::uint64_t seed) {
  if (size == 1) return none();
  const int cycle = rounds_of(size);
  const std::vector<int> order = shuffled(size, seed, round / cycle);
  Neighbours there = at_distance(position(order, member), size, 1 << (round % cycle));
  for (std::vector<int>* list : {&there.to, &there.from})
    for (int& place : *list) place = order[static_cast<std::size_t>(place)];
  return there;
}

Neighbours random_pairs(int member, int size, std::int64_t round, std::uint64_t seed) {
  const std::vector<int> order = shuffled(size, seed, round);
  const int partner = position(order, member) ^ 1;
  if (partner >= size) return none();
  return {{order[static_cast<std::size_t>(partner)]}, {order[static_cast<std::size_t>(partner)]}};
}

int drawn_by(int member, int size, std::int64_t round, std::uint64_t seed) {
  const auto draw = static_cast<std::uint64_t>(round) * static_cast<std::uint64_t>(size);
  Rng rng(seed, "gossip push", draw + static_cast<std::uint64_t>(member));
  return (member + 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(size - 1)))) % size;
}

Neighbours push(int member, int size, std::int64_t round, std::uint64_t seed) {
  if (size == 1) return none();
  Neighbours there{{drawn_by(member, size, round, seed)}, {}};
  for (int other = 0; other < size; ++other)
    if (other != member && drawn_by(other, size, round, seed) == member) there.from.push_back(other);
  return there;
}

}  // namespace

std::span<const GraphRow> graph_table() {
  static constexpr GraphRow kGraphs[] = {
      {"ring", ring, true},
      {"exponential", exponential, true},
      {"dissemination", dissemination, true},
      {"random", random_pairs, true},
      {"push", push, false},
  };
  return kGraphs;
}

const GraphRow& find_graph(std::string_view name, std::span<const GraphRow> own) {
  for (std::span<const GraphRow> rows : {own, graph_table()})
    for (const GraphRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no graph of gossip is called " + std::string(name));
}

}  // namespace taxon::exchange
