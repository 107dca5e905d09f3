#pragma once

#include "comm/in_flight.h"
#include "comm/rows/agreement.h"
#include "comm/scratch.h"

namespace taxon::comm {

/// Members of a group that make a ring: `size` of them, `stride` apart, from `first` on.
struct Circle {
  int first = 0, stride = 1, size = 1;
  int member(int position) const { return first + stride * ((position + size) % size); }
  int position(int member) const { return (member - first) / stride; }
};

/// Steps of a ring. In each of them every member sends one part to the next member and receives another one
/// from the one before: in the first size - 1 steps parts are summed on their way and end at their owners, in
/// the following size - 1 steps they travel once around.
///
/// Parts are cut into segments, and a segment that has come in is sent on at once, while the rest of its part
/// is still travelling: the link to the next member never waits for the link from the one before, except for
/// the first segment.
class Ring {
 public:
  struct Steps {
    int first = 0;
    int last = 0;  // exclusive
  };
  static constexpr Steps reduce(int members) { return {0, members - 1}; }
  static constexpr Steps gather(int members) { return {members - 1, 2 * members - 2}; }
  static constexpr Steps both(int members) { return {0, 2 * members - 2}; }

  /// A member's receives are posted this many segments ahead, and it sends at most this many more than it has
  /// received. Since all members advance alike, what arrives finds its place and is not copied again, and the
  /// queue at each link stays short. Over TCP that counts: acknowledgements wait in the queue of the other
  /// direction, and with whole parts in it a ring of 1 Gbit/s links loses 3 to 5 % of them. Over a long path
  /// it is as many as fill it.
  static constexpr std::size_t kAhead = 4;

  /// REQUIRES: at least two members.
  Ring(Communicator& group, const Call& call, net::Tag tag, Steps steps)
      : Ring(group, {.size = group.size()}, call, tag, steps) {}
  /// Of members of the group, this one among them.
  Ring(Communicator& group, Circle circle, const Call& call, net::Tag tag, Steps steps);
  /// The coroutine of all steps. The ring outlives it; see settle().
  task::Task<void> run();

 private:
  bool sums(std::size_t item) const;
  Range piece(std::size_t item, int part_shift) const;
  View received(std::size_t item) const;
  net::Tag tag_of(std::size_t item) const;
  tensor::Kernel add_received(std::size_t item) const;
  void start_send(std::size_t item);
  void start_receive(std::size_t item);
  int neighbour(int shift) const { return circle_.member(circle_.position(group_.rank()) + shift); }

  Communicator& group_;
  Circle circle_;
  Call call_;
  net::Tag tag_;
  Steps steps_;
  std::size_t count_;     // elements
  std::size_t segments_;  // of each part
  std::size_t items_;     // segments times steps
  std::size_t longest_;   // bytes of the longest segment
  std::size_t ahead_;     // segments
  SizeHandshake agreement_;
  Scratch scratch_;
  InFlight<net::SendOp> sends_;
  InFlight<net::RecvOp> receives_;
};

/// Seconds of (size - 1) `phases` steps in which every byte of a part crosses a link: latency and bandwidth.
double ring_seconds(const Shape& shape, const LinkCost& cost, int phases);

}  // namespace taxon::comm
