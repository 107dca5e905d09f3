#include "comm/rows/segments.h"
#include "comm/rows/sent.h"
#include "comm/rows/torus.h"
#include "comm/trace_scope.h"
#include "task/scope.h"

namespace taxon::comm {

Grid::Grid(int members) : columns(members) {
  for (int divisor = 2; divisor * divisor <= members; ++divisor)
    if (members % divisor == 0) rows = divisor;
  columns = members / rows;
}

std::vector<TorusPhase> torus_phases(const Grid& grid, int member, int colour, std::size_t count) {
  const bool by_rows = colour == 0;
  const Circle first = by_rows ? grid.row_of(member) : grid.column_of(member);
  const Circle second = by_rows ? grid.column_of(member) : grid.row_of(member);
  const Range all{0, count};
  if (second.size == 1) return {{first, all, Ring::both(first.size)}};
  const Range own =
      part(all, static_cast<std::size_t>(first.size), static_cast<std::size_t>(first.position(member)));
  return {{first, all, Ring::reduce(first.size)},
          {second, own, Ring::both(second.size)},
          {first, all, Ring::gather(first.size)}};
}

namespace {

bool applies(const Shape&) { return true; }

/// It has 2 (columns - 1) + 2 (rows - 1) steps in place of a ring's 2 (n - 1) (Cho, Finkler, Kung and Hunter,
/// "BlueConnect", SysML 2019), but a ring's segments hide all latencies but one, where rings of rows and of
/// columns start and end on their own; and one cost for all links says nothing of dimensions that have links
/// of their own. So it is weighed as a ring and those starts: a plan that knows its network names it.
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  return ring_seconds(shape, cost, 2) + 2 * cost.latency +
         static_cast<double>(shape.bytes) / shape.size * cost.reduce;
}

/// The phases of one colour, one after the other.
task::Task<void> run_colour(Communicator* group, Call call, std::vector<TorusPhase> phases,
                            std::vector<net::Tag> tags) {
  for (std::size_t p = 0; p < phases.size(); ++p) {
    Call part = call;
    part.data = elements(call.data, call.type, phases[p].range);
    Ring ring(*group, phases[p].circle, part, tags[p], phases[p].steps);
    auto steps = ring.run();
    co_await settle(group->runtime().pending(), std::move(steps));
  }
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "all_reduce torus", call);
  if (group.size() == 1) co_return;
  const Grid grid(group.size());
  const Range all{0, call.data.size() / size_of(call.type)};
  task::Scope colours(group.runtime().pending());
  for (int colour = 0; colour < grid.colours(); ++colour) {
    const Range range = part(all, static_cast<std::size_t>(grid.colours()), static_cast<std::size_t>(colour));
    Call own = call;
    own.data = elements(call.data, call.type, range);
    std::vector<TorusPhase> phases = torus_phases(grid, group.rank(), colour, range.size);
    std::vector<net::Tag> tags;
    for (std::size_t p = 0; p < phases.size(); ++p)
      tags.push_back(group.begin(net::Operation::AllReduce, call.unit, call.lane));
    colours.spawn(run_colour(&group, own, std::move(phases), std::move(tags)));
  }
  co_await colours.join();
}

}  // namespace

/// Rings along the dimensions of a grid of members, of several colours at the same time: PowerAI DDL (Cho et
/// al., arXiv 1708.02188) and BlueConnect. It pays on networks of that shape, with links of their own in each
/// dimension.
CollectiveRow torus_all_reduce() {
  return {net::Operation::AllReduce, "torus", applies, estimate, sends_two_shares, run};
}

}  // namespace taxon::comm
