#include "comm/rows/torus.h"

#include <cstring>

#include "sim/schedules/ring_story.h"
#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

Range part_of_colour(const comm::Grid& grid, std::size_t count, int colour) {
  return part({0, count}, static_cast<std::size_t>(grid.colours()), static_cast<std::size_t>(colour));
}

}  // namespace

CompletionTimes evaluate_torus_all_reduce(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  const comm::Grid grid(evaluator.members());
  std::vector<std::vector<std::vector<RingLeg>>> legs;
  for (int colour = 0; colour < grid.colours(); ++colour) {
    const std::size_t count = part_of_colour(grid, bytes / size_of(type), colour).size;
    auto& of_colour = legs.emplace_back();
    for (int member = 0; member < evaluator.members(); ++member) {
      auto& of_member = of_colour.emplace_back();
      for (const comm::TorusPhase& phase : comm::torus_phases(grid, member, colour, count))
        of_member.emplace_back(phase.circle.member(phase.circle.position(member) + 1), phase.circle.size,
                               phase.range.size * size_of(type), phase.steps);
    }
  }
  return RingStory(evaluator, type, std::move(legs)).run();
}

/// Sums along a dimension, and of these along the other one.
std::vector<std::byte> sum_over_torus(std::span<const ConstView> members, DType type) {
  const comm::Grid grid(static_cast<int>(members.size()));
  const std::size_t element = size_of(type), bytes = members[0].size();
  std::vector<std::byte> sum(bytes);
  for (int colour = 0; colour < grid.colours(); ++colour) {
    const Range mine = part_of_colour(grid, bytes / element, colour);
    auto of_circle = [&](const comm::Circle& circle, auto&& data) {
      std::vector<ConstView> views;
      for (int position = 0; position < circle.size; ++position)
        views.push_back(data(circle.member(position)));
      return sum_along_ring(views, type);
    };
    // What each member's first circle comes to, and then parts of these along the second one.
    std::vector<std::vector<std::byte>> first(members.size());
    for (int member = 0; member < static_cast<int>(members.size()); ++member)
      first[static_cast<std::size_t>(member)] =
          of_circle(comm::torus_phases(grid, member, colour, mine.size).front().circle, [&](int other) {
            return members[static_cast<std::size_t>(other)].slice(mine.begin * element, mine.size * element);
          });
    for (int member = 0; member < static_cast<int>(members.size()); ++member) {
      const auto phases = comm::torus_phases(grid, member, colour, mine.size);
      const Range own = phases.size() > 1 ? phases[1].range : Range{0, mine.size};
      if (own.size == 0) continue;
      auto part_of = [&](int other) {
        const auto& of_other = first[static_cast<std::size_t>(other)];
        return ConstView(of_other.data() + own.begin * element, own.size * element);
      };
      const std::vector<std::byte> done =
          phases.size() > 1 ? of_circle(phases[1].circle, part_of) : first[static_cast<std::size_t>(member)];
      std::memcpy(sum.data() + (mine.begin + own.begin) * element, done.data(), done.size());
    }
  }
  return sum;
}

}  // namespace taxon::sim
