#include "comm/rows/ring.h"

#include "comm/kernels.h"
#include "comm/rows/segments.h"

namespace taxon::comm {
namespace {

std::size_t longest_part(const Call& call, int members) {
  return part({0, call.data.size() / size_of(call.type)}, static_cast<std::size_t>(members), 0).size *
         size_of(call.type);
}

/// Segments of `longest` bytes that are under way to `peer`.
std::size_t segments_ahead(const net::Transport& transport, Rank peer, std::size_t longest) {
  const std::size_t fill = transport.path(peer).in_flight;
  return longest == 0 ? Ring::kAhead : std::max(Ring::kAhead, (fill + longest - 1) / longest);
}

}  // namespace

Ring::Ring(Communicator& group, Circle circle, const Call& call, net::Tag tag, Steps steps)
    : group_(group),
      circle_(circle),
      call_(call),
      tag_(tag),
      steps_(steps),
      count_(call.data.size() / size_of(call.type)),
      segments_(segments_for(longest_part(call, circle.size))),
      items_(segments_ * static_cast<std::size_t>(steps.last - steps.first)),
      longest_((longest_part(call, circle.size) / size_of(call.type) + segments_ - 1) / segments_ *
               size_of(call.type)),
      ahead_(segments_ahead(group.runtime().transport, group.global(neighbour(1)), longest_)),
      agreement_(call),
      // A receive may only be posted over a part whose own send is over: that is so for parts of the step
      // before, see run().
      scratch_(group.scratch(),
               steps.first < circle.size - 1
                   ? std::min(ahead_, segments_ * static_cast<std::size_t>(circle.size - 1)) * longest_
                   : 0,
               call.data),
      sends_(std::min(ahead_, segments_)),
      receives_(std::min(ahead_, segments_ * static_cast<std::size_t>(circle.size - 1))) {}

bool Ring::sums(std::size_t item) const {
  return steps_.first + static_cast<int>(item / segments_) < circle_.size - 1;
}

Range Ring::piece(std::size_t item, int part_shift) const {
  int members = circle_.size;
  int step = steps_.first + static_cast<int>(item / segments_);
  int index = (circle_.position(group_.rank()) - part_shift - step + 3 * members) % members;
  Range whole = part({0, count_}, static_cast<std::size_t>(members), static_cast<std::size_t>(index));
  return part(whole, segments_, item % segments_);
}

View Ring::received(std::size_t item) const {
  Range range = piece(item, 2);
  if (!sums(item)) return elements(call_.data, call_.type, range);
  return scratch_.bytes().slice(item % receives_.size() * longest_, range.size * size_of(call_.type));
}

net::Tag Ring::tag_of(std::size_t item) const {
  net::Tag tag = tag_;
  tag.round = static_cast<std::uint32_t>(item + (segments_ > 1 ? 1 : 0));
  return tag;
}

void Ring::start_send(std::size_t item) {
  sends_.start(item, group_.runtime().transport, group_.global(neighbour(1)), tag_of(item),
               elements(call_.data, call_.type, piece(item, 1)), call_.type);
}

void Ring::start_receive(std::size_t item) {
  receives_.start(item, group_.runtime().transport, group_.global(neighbour(-1)), tag_of(item),
                  received(item), call_.type);
}

tensor::Kernel Ring::add_received(std::size_t item) const {
  return sum_kernel(call_.type, elements(call_.data, call_.type, piece(item, 2)), {received(item)});
}

task::Task<void> Ring::run() {
  if (segments_ > 1) {
    agreement_.receive(group_, tag_, neighbour(-1));
    agreement_.tell(group_, tag_, neighbour(1));
  }
  for (std::size_t item = 0; item < std::min(receives_.size(), items_); ++item) start_receive(item);
  std::size_t sent = 0;
  while (sent < std::min(sends_.size(), items_)) start_send(sent++);
  co_await agreement_.check(group_);
  for (std::size_t item = 0; item < items_; ++item) {
    net::RecvOp* receive = receives_.at(item);
    co_await *receive;
    if (sums(item)) {
      ExchangeKernel sum(group_, add_received(item));
      if (!sum.done()) {
        co_await sum.finished();
      }
    }
    // The send of this item is over before another one takes its place; so all sends up to it are, and a
    // receive that is posted now, at most size - 1 steps ahead, overwrites nothing that is still to be sent.
    net::SendOp* own = sends_.at(item);
    co_await *own;
    if (sent < items_) {
      for (std::size_t ahead = item + 1; !call_.runs_ahead() && ahead < sent; ++ahead) {
        net::SendOp* before = sends_.at(ahead);
        co_await *before;
      }
      start_send(sent++);
    }
    if (item + receives_.size() < items_) start_receive(item + receives_.size());
  }
}

double ring_seconds(const Shape& shape, const LinkCost& cost, int phases) {
  double steps = phases * (shape.size - 1);
  return steps * (cost.latency + static_cast<double>(shape.bytes) / shape.size / cost.bandwidth);
}

}  // namespace taxon::comm
