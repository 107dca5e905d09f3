#include "comm/rows/tree.h"

#include <bit>

#include "comm/kernels.h"
#include "comm/rows/segments.h"

namespace taxon::comm {
namespace {

/// A tree's pipeline is deeper than a ring's step, so its segments may be more.
constexpr std::size_t kMostTreeSegments = 64;

std::vector<int> children_of(int member, int members) {
  std::vector<int> children;
  for (int child : {2 * member + 1, 2 * member + 2})
    if (child < members) children.push_back(child);
  return children;
}

}  // namespace

Tree::Tree(Communicator& group, const Call& call, net::Tag tag, Ways ways)
    : group_(group),
      call_(call),
      tag_(tag),
      ways_(ways),
      children_(children_of(group.rank(), group.size())),
      segments_(segments(call.data.size())),
      longest_((call.data.size() / size_of(call.type) + segments_ - 1) / segments_ * size_of(call.type)),
      agreement_(call),
      scratch_(group.scratch(), ways == Ways::Both ? children_.size() * kWindow * longest_ : 0, call.data),
      up_sends_(kWindow),
      down_receives_(kWindow) {
  up_receives_.reserve(children_.size());
  down_sends_.reserve(children_.size());
  for (std::size_t child = 0; child < children_.size(); ++child) {
    up_receives_.emplace_back(kWindow);
    down_sends_.emplace_back(kWindow);
  }
}

int Tree::depth(int members) { return static_cast<int>(std::bit_width(static_cast<unsigned>(members))) - 1; }

std::size_t Tree::segments(std::size_t bytes) {
  return std::clamp<std::size_t>((bytes + kSegmentBytes - 1) / kSegmentBytes, 1, kMostTreeSegments);
}

View Tree::segment(std::size_t index) const {
  Range all{0, call_.data.size() / size_of(call_.type)};
  return elements(call_.data, call_.type, part(all, segments_, index));
}

View Tree::staged(std::size_t child, std::size_t index) const {
  std::size_t place = child * kWindow + index % kWindow;
  return scratch_.bytes().slice(place * longest_, segment(index).size());
}

net::Tag Tree::tag_of(std::uint32_t way, std::size_t index) const {
  net::Tag tag = tag_;
  tag.round = static_cast<std::uint32_t>(2 * (index + (segments_ > 1 ? 1 : 0))) + way;
  return tag;
}

void Tree::start_receive_up(std::size_t index) {
  for (std::size_t child = 0; child < children_.size(); ++child)
    up_receives_[child].start(index, group_.runtime().transport, group_.global(children_[child]),
                              tag_of(0, index), staged(child, index), call_.type);
}

void Tree::start_send_up(std::size_t index) {
  up_sends_.start(index, group_.runtime().transport, group_.global(parent()), tag_of(0, index),
                  segment(index), call_.type);
}

void Tree::start_receive_down(std::size_t index) {
  down_receives_.start(index, group_.runtime().transport, group_.global(parent()), tag_of(1, index),
                       segment(index), call_.type);
}

void Tree::start_send_down(std::size_t index) {
  for (std::size_t child = 0; child < children_.size(); ++child)
    down_sends_[child].start(index, group_.runtime().transport, group_.global(children_[child]),
                             tag_of(1, index), segment(index), call_.type);
}

tensor::Kernel Tree::add_children(std::size_t index) const {
  if (children_.size() == 1) return sum_kernel(call_.type, segment(index), {staged(0, index)});
  return sum_kernel(call_.type, segment(index), {staged(0, index), staged(1, index)});
}

/// Segment `index` is summed over this member's subtree and goes to the parent.
task::Task<void> Tree::up(std::size_t index) {
  for (auto& receives : up_receives_) {
    net::RecvOp* receive = receives.at(index);
    co_await *receive;
  }
  if (!children_.empty()) {
    ExchangeKernel sum(group_, add_children(index));
    if (!sum.done()) {
      co_await sum.finished();
    }
    if (index + kWindow < segments_) start_receive_up(index + kWindow);
  }
  if (is_root()) co_return;
  net::SendOp* before = up_sends_.at(index);
  if (before != nullptr) co_await *before;
  start_send_up(index);
}

/// Segment `index` is complete here (after its arrival, except at the root) and goes to the children.
task::Task<void> Tree::down(std::size_t index) {
  if (!is_root()) {
    net::RecvOp* receive = down_receives_.at(index);
    co_await *receive;
  }
  for (auto& sends : down_sends_) {
    net::SendOp* before = sends.at(index);
    if (before != nullptr) co_await *before;
  }
  start_send_down(index);
}

/// Waits for the last window of sends.
task::Task<void> Tree::finish() {
  for (std::size_t i = 0; i < std::min(kWindow, segments_); ++i) {
    for (auto& sends : down_sends_) {
      net::SendOp* send = sends.at(i);
      co_await *send;
    }
    net::SendOp* send = up_sends_.at(i);
    if (send != nullptr) co_await *send;
  }
}

/// Facts travel with the first payload's direction: to the root when the tree sums, from it when it spreads.
void Tree::agree() {
  if (segments_ == 1) return;
  net::Tag tag = tag_;
  tag.round = ways_ == Ways::Both ? 0 : 1;
  const bool up = ways_ == Ways::Both;
  for (int child : children_)
    up ? agreement_.receive(group_, tag, child) : agreement_.tell(group_, tag, child);
  if (is_root()) return;
  up ? agreement_.tell(group_, tag, parent()) : agreement_.receive(group_, tag, parent());
}

task::Task<void> Tree::run() {
  agree();
  const bool sums = ways_ == Ways::Both;
  const std::size_t window = std::min(kWindow, segments_);
  for (std::size_t i = 0; sums && i < window; ++i) start_receive_up(i);
  for (std::size_t i = 0; !sums && !is_root() && i < window; ++i) start_receive_down(i);
  co_await agreement_.check(group_);
  // Summing, a member that is not the root lets its way down lag two windows behind its way up: a receive
  // down overwrites the segment, whose send up, one window earlier, must be over.
  const std::size_t lag = sums && !is_root() ? kLag : 0;
  for (std::size_t i = 0; i < segments_ + lag; ++i) {
    if (sums && i < segments_) {
      co_await up(i);
    }
    if (i >= lag) {
      co_await down(i - lag);
      if (!sums && !is_root() && i + kWindow < segments_) start_receive_down(i + kWindow);
    }
    if (lag > 0 && i >= kWindow && i - kWindow < segments_) {
      net::SendOp* sent = up_sends_.at(i - kWindow);
      if (i >= segments_) co_await *sent;  // otherwise the send of segment i took its place, so it is over
      start_receive_down(i - kWindow);
    }
  }
  co_await finish();
}

}  // namespace taxon::comm
