#include "comm/rows/segments.h"
#include "comm/rows/sent.h"
#include "comm/rows/tree.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

bool applies(const Shape&) { return true; }

/// The first segment crosses every level twice; the others follow at the pace of the busiest link, which
/// carries the data once for each child and once for the parent (Chan et al., "Collective communication:
/// theory, practice, and experience", CCPE 2007, section 6.2).
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  double segments = static_cast<double>(Tree::segments(shape.bytes));
  double segment = static_cast<double>(shape.bytes) / segments;
  double children = shape.size > 2 ? 2 : 1, links = children + (shape.size > 3 ? 1 : 0);
  double level = cost.latency + children * segment / cost.bandwidth;
  double sums = children * segment * cost.reduce;
  return Tree::depth(shape.size) * (2 * level + sums) + (segments - 1) * links * segment / cost.bandwidth;
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "all_reduce tree", call);
  if (group.size() == 1) co_return;
  net::Tag tag = group.begin(net::Operation::AllReduce, call.unit, call.lane);
  Tree tree(group, call, tag, Tree::Ways::Both);
  auto steps = tree.run();
  co_await settle(group.runtime().pending(), std::move(steps));
}

}  // namespace

CollectiveRow tree_all_reduce() {
  return {net::Operation::AllReduce, "tree", applies, estimate, sends_two_shares, run};
}

}  // namespace taxon::comm
