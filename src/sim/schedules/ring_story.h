#pragma once

#include <array>
#include <vector>

#include "comm/rows/ring.h"
#include "sim/schedules/schedules.h"

namespace taxon::sim {

inline constexpr double kFactsBytes = 16;  // of comm::SizeHandshake

/// One ring at a member: `bytes` in as many parts as it has members.
struct RingLeg {
  RingLeg(int next, int size, std::size_t bytes, comm::Ring::Steps steps);
  int next;                     // the member that hears this one
  std::size_t segments, items;  // of a part; of all steps
  std::size_t window, summed;   // in flight; of the items, the first
  double piece;                 // bytes of a segment
};

/// Rings one after the other, of several colours at the same time, where several messages may share a link,
/// so that only time tells who comes first: every member as far as it can go, as comm::Ring::run().
class RingStory final : private ScheduleEvaluator::Story {
 public:
  /// legs[colour][member]: in their order; equally many at every member.
  RingStory(ScheduleEvaluator& evaluator, DType type, std::vector<std::vector<std::vector<RingLeg>>> legs);
  CompletionTimes run();

 private:
  /// A member for one colour.
  struct Actor {
    std::vector<RingLeg> legs;
    std::vector<ScheduleEvaluator::Way> ways;  // of the legs
    std::vector<std::int64_t> came;            // items, by leg
    std::size_t leg = 0, sent = 0, item = 0;
    bool begun = false, summed = false, sleeping = true;
    std::array<Duration, comm::Ring::kAhead> left{};
    Duration end{0};
  };
  int member_of(std::size_t actor) const { return static_cast<int>(actor % members_); }
  std::uint32_t message(std::size_t actor) const;
  void send(std::size_t actor, Duration now);
  void resumed(int actor, Duration now) override;
  void arrived(std::uint32_t message, Duration now) override;
  void go_on(std::size_t actor, Duration now);
  bool item_done(std::size_t actor, Duration now);
  bool reached(std::size_t actor, Duration when, Duration now);

  ScheduleEvaluator& evaluator_;
  DType type_;
  std::size_t members_;
  std::vector<Actor> actors_;
};

}  // namespace taxon::sim
