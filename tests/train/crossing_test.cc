#include "train/crossing.h"

#include <gmock/gmock.h>

#include "support/runtimes.h"
#include "support/worlds.h"

namespace taxon::train {
namespace {

using parallel::Movement;

constexpr std::size_t kFeaturesOfMember = 3;

struct Case {
  Movement movement;
  bool from_samples, to_samples;
};
constexpr Case kCases[] = {{Movement::None, false, false},         {Movement::None, true, true},
                           {Movement::AllGather, true, false},     {Movement::AllGather, false, false},
                           {Movement::Slice, false, true},         {Movement::Slice, false, false},
                           {Movement::ReduceScatter, false, true}, {Movement::ReduceScatter, false, false},
                           {Movement::AllReduce, false, false},    {Movement::AllToAll, true, false},
                           {Movement::AllToAll, false, true}};

/// A tensor over `members`, and how a member has it.
struct Tensor {
  std::size_t samples, members;
  std::size_t features() const { return members * kFeaturesOfMember; }
  Range all() const { return {0, samples}; }
  Range samples_of(std::size_t member) const { return part(all(), members, member); }
  Range features_of(std::size_t member) const { return {member * kFeaturesOfMember, kFeaturesOfMember}; }

  std::vector<float> plain(Range rows, Range columns) const {
    std::vector<float> values;
    for (std::size_t n = rows.begin; n < rows.end(); ++n)
      for (std::size_t f = columns.begin; f < columns.end(); ++f)
        values.push_back(static_cast<float>(100 * n + f));
    return values;
  }
  std::vector<float> plain(Range rows) const { return plain(rows, {0, features()}); }
  /// One member's features of these rows after the other's.
  std::vector<float> by_member(Range rows) const {
    std::vector<float> values;
    for (std::size_t m = 0; m < members; ++m) {
      const std::vector<float> one = plain(rows, features_of(m));
      values.insert(values.end(), one.begin(), one.end());
    }
    return values;
  }
  /// What a member leaves, and takes.
  std::pair<std::vector<float>, std::vector<float>> sides(const Case& c, std::size_t member) const {
    const Range own = samples_of(member), columns = features_of(member);
    switch (c.movement) {
      case Movement::None:
        return {plain(c.from_samples ? own : all()), plain(c.from_samples ? own : all())};
      case Movement::AllGather:
        if (c.from_samples) return {plain(own), plain(all())};
        return {plain(all(), columns), by_member(all())};
      case Movement::Slice:
      case Movement::ReduceScatter:
        if (c.to_samples) return {plain(all()), plain(own)};
        return {by_member(all()), plain(all(), columns)};
      case Movement::AllReduce:
        return {plain(all()), plain(all())};
      case Movement::AllToAll:
        if (c.from_samples) return {by_member(own), plain(all(), columns)};
        return {plain(all(), columns), by_member(own)};
    }
    return {};
  }
};

task::Task<void> cross(comm::Runtime& runtime, std::size_t samples) {
  std::vector<Rank> everybody;
  for (int rank = 0; rank < runtime.world_size(); ++rank) everybody.emplace_back(rank);
  comm::Communicator group(runtime, "tensor", everybody);
  auto established = group.establish();
  co_await established;
  ActivationPool pool(runtime.transport, DType::Float32);
  Crossings crossings(group, pool);
  const auto member = static_cast<std::size_t>(group.rank());
  const Tensor tensor{samples, static_cast<std::size_t>(group.size())};
  std::uint32_t unit = 7;
  for (const Case& c : kCases)
    for (int use = 0; use < 2; ++use) {  // the second time in memory that was used
      const auto [leaves, takes] = tensor.sides(c, member);
      const bool parts = c.movement == Movement::AllGather || c.movement == Movement::AllToAll;
      const Crossing crossing{c.movement,
                              c.from_samples,
                              c.to_samples,
                              samples,
                              parts && !c.from_samples ? kFeaturesOfMember : tensor.features(),
                              unit++};
      Payload payload = crossings.room(crossing);
      EXPECT_EQ(bool(payload), samples > 0);
      if (!payload) continue;
      const std::span<float> room = as_span<float>(payload.view());
      EXPECT_EQ(room.size(), leaves.size());
      const bool sums = c.movement == Movement::AllReduce || c.movement == Movement::ReduceScatter;
      // Summands: what is asked for, and 1 of each but the first, who has less of it.
      const float less = member == 0 ? -static_cast<float>(tensor.members - 1) : 1;
      for (std::size_t i = 0; i < room.size(); ++i)
        room[i] = !sums ? leaves[i] : member == 0 ? leaves[i] + less : less;
      auto carrying = crossings.carry(crossing, &payload);
      co_await carrying;
      const std::span<const float> taken = as_span<float>(payload.view());
      EXPECT_THAT(std::vector<float>(taken.begin(), taken.end()), testing::ElementsAreArray(takes))
          << plan::to_string(c.movement) << " from samples " << c.from_samples << " to samples "
          << c.to_samples << ", " << samples << " samples";
    }
}

TEST(Crossings, GiveEveryMemberWhatTheOtherSideTakes) {
  for (int members : {1, 2, 3, 4})
    for (std::size_t samples : {0, 1, 2, 5, 8})
      test::run_runtimes(members, [samples](comm::Runtime& runtime) { return cross(runtime, samples); });
}

}  // namespace
}  // namespace taxon::train
