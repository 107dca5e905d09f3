#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace taxon::exchange {

/// With whom a member mixes in one round: positions in the group, distinct, itself not among them.
struct Neighbours {
  std::vector<int> to, from;
};

/// A graph of gossip, one row for each.
struct GraphRow {
  std::string_view name;
  /// A pure function: every member finds the same edges. REQUIRES: 0 <= member < size.
  Neighbours (*at)(int member, int size, std::int64_t round, std::uint64_t seed);
  /// True if in every round each member hears from as many as it sends to, and all whom it hears from send to
  /// as many as itself: mixing with equal shares keeps the mean (the matrix is doubly stochastic). False: it
  /// keeps the weighted mean alone, and weights last.
  bool balanced = false;
};
/// ring: both neighbours (D-PSGD: arXiv 1705.09056). exponential: one at a distance of 1, 2, 4, ... in turn
/// (SGP: arXiv 1811.10792); among 2^k members it averages exactly in k rounds. dissemination: the same over
/// ranks in a new order each time (GossipGraD: arXiv 1803.05880). random: disjoint pairs, drawn each round;
/// one of an odd number pauses. push: each to one whom it draws by itself (GoSGD: arXiv 1611.09726).
std::span<const GraphRow> graph_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const GraphRow& find_graph(std::string_view name, std::span<const GraphRow> own = {});

}  // namespace taxon::exchange
