#pragma once

#include "comm/in_flight.h"
#include "comm/rows/agreement.h"
#include "comm/scratch.h"

namespace taxon::comm {

/// A binary tree over a group: member 0 is the root, the children of i are 2i + 1 and 2i + 2. The data is cut
/// into segments that follow each other through the tree. `Both` sums on the way to the root and spreads the
/// sum on the way back, which begins while later segments still go up; `Down` only spreads the root's data.
class Tree {
 public:
  enum class Ways { Both, Down };
  /// Segments in flight on each link and way.
  static constexpr std::size_t kWindow = 4;
  /// Summing, a member that is not the root lets its way down lag so many segments behind its way up.
  static constexpr std::size_t kLag = 2 * kWindow;

  Tree(Communicator& group, const Call& call, net::Tag tag, Ways ways);
  /// The coroutine of it all. The tree outlives it; see settle().
  task::Task<void> run();
  /// Levels below the root of a tree of `members`.
  static int depth(int members);
  /// Segments that `bytes` are cut into.
  static std::size_t segments(std::size_t bytes);

 private:
  View segment(std::size_t index) const;
  View staged(std::size_t child, std::size_t index) const;
  net::Tag tag_of(std::uint32_t way, std::size_t index) const;
  bool is_root() const { return group_.rank() == 0; }
  int parent() const { return (group_.rank() - 1) / 2; }
  void agree();
  void start_receive_up(std::size_t index);
  void start_send_up(std::size_t index);
  void start_receive_down(std::size_t index);
  void start_send_down(std::size_t index);
  tensor::Kernel add_children(std::size_t index) const;
  task::Task<void> up(std::size_t index);
  task::Task<void> down(std::size_t index);
  task::Task<void> finish();

  Communicator& group_;
  Call call_;
  net::Tag tag_;
  Ways ways_;
  std::vector<int> children_;
  std::size_t segments_;
  std::size_t longest_;  // bytes of the longest segment
  SizeHandshake agreement_;
  Scratch scratch_;  // what the children sent: a window of segments for each
  InFlight<net::SendOp> up_sends_;
  InFlight<net::RecvOp> down_receives_;
  std::vector<InFlight<net::RecvOp>> up_receives_;  // [child]
  std::vector<InFlight<net::SendOp>> down_sends_;   // [child]
};

}  // namespace taxon::comm
