#include "parallel/placement.h"

namespace taxon::parallel {

std::optional<Movement> movement(Placement from, Placement to) {
  if (from == to) return Movement::None;
  if (to.holding == Holding::Partial) return std::nullopt;
  const bool to_all = to.holding == Holding::Replicated;
  switch (from.holding) {
    case Holding::Replicated:
      return Movement::Slice;
    case Holding::Sharded:
      return to_all ? Movement::AllGather : Movement::AllToAll;
    case Holding::Partial:
      return to_all ? Movement::AllReduce : Movement::ReduceScatter;
  }
  return std::nullopt;
}

double moved_bytes(Movement movement, double bytes, int members) {
  const double others = (members - 1.0) / members;
  switch (movement) {
    case Movement::None:
    case Movement::Slice:
      return 0;
    case Movement::AllGather:
    case Movement::ReduceScatter:
      return others * bytes;
    case Movement::AllReduce:
      return 2 * others * bytes;
    case Movement::AllToAll:
      return others * bytes / members;
  }
  return 0;
}

}  // namespace taxon::parallel
