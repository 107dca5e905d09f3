#include "comm/rows/segments.h"
#include "comm/rows/sent.h"
#include "comm/rows/tree.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

bool applies(const Shape&) { return true; }

/// The first segment crosses every level; the others follow at the pace of a link that carries the data once
/// for each child (Chan et al., "Collective communication: theory, practice, and experience", CCPE 2007).
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  double segments = static_cast<double>(Tree::segments(shape.bytes));
  double segment = static_cast<double>(shape.bytes) / segments;
  double children = shape.size > 2 ? 2 : 1;
  double level = cost.latency + children * segment / cost.bandwidth;
  return Tree::depth(shape.size) * level + (segments - 1) * children * segment / cost.bandwidth;
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "broadcast tree", call);
  if (group.size() == 1) co_return;
  net::Tag tag = group.begin(net::Operation::Broadcast, call.unit, call.lane);
  Tree tree(group, call, tag, Tree::Ways::Down);
  auto steps = tree.run();
  co_await settle(group.runtime().pending(), std::move(steps));
}

}  // namespace

CollectiveRow tree_broadcast() {
  return {net::Operation::Broadcast, "tree", applies, estimate, sends_share, run};
}

}  // namespace taxon::comm
