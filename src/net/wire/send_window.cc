#include "net/wire/send_window.h"

namespace taxon::net {

bool SendWindow::send(std::size_t bytes, Instant now) {
  sent_ += bytes;
  // Also when the window is full: what nobody asks about would be missing from it.
  if (sent_ - last_asked_ < stroke() && on_the_way() + bytes <= size_) return false;
  last_asked_ = sent_;
  asked_.push_back({sent_, now});
  return true;
}

std::size_t SendWindow::stroke() const {
  const auto bytes = static_cast<std::size_t>(rate_.value_or(0) * to_seconds(kStroke));
  return std::min(size_ / 4, std::max(kLeast / 2, bytes));
}

bool SendWindow::confirm(Instant now, Confirmation confirmation) {
  if (asked_.empty()) return false;
  const Asked asked = asked_.front();
  asked_.pop_front();
  confirmed_ = asked.position;
  remember(now, confirmation.came - asked.sent.time_since_epoch());
  measure(now, trip(now.time_since_epoch() - confirmation.came), confirmation.share);
  return true;
}

void SendWindow::remember(Instant now, Duration there) {
  if (shortest_[0] && now - stretch_ >= kMemory) {
    shortest_ = {std::nullopt, shortest_[0]};
    // Whoever sends without a pause would otherwise take its own queue for the way.
    size_ = std::max(kLeast, size_ / 4);
    draining_ = 2;
  }
  if (!shortest_[0]) stretch_ = now;
  shortest_[0] = std::min(shortest_[0].value_or(there), there);
  if (epoch_) epoch_->there = std::min(epoch_->there, there);
}

/// Of a byte and its confirmation: the clocks' zeros are in both ways, and not in their sum.
double SendWindow::trip(Duration back) {
  back_ = back_ ? (7 * *back_ + to_seconds(back)) / 8 : to_seconds(back);
  return *back_ + to_seconds(shortest());
}

void SendWindow::measure(Instant now, double trip, double share) {
  if (!epoch_) return begin(now);
  const double length = to_seconds(now - epoch_->begin);
  if (length < std::max(to_seconds(kEpoch), trip)) return;
  // Of an epoch in which nothing was held back the rate is the sender's, not the path's.
  if (held_) {
    const double rate = static_cast<double>(confirmed_ - epoch_->confirmed) / length;
    rate_ = rate_ ? (*rate_ + rate) / 2 : rate;
  }
  // Others may be held up elsewhere and leave more to this one.
  const bool like_others = share > 0 && (!rate_ || *rate_ < 2 * share);
  if (draining_ > 0)
    --draining_;
  else if (like_others || held_)
    resize(like_others ? share : *rate_, trip);
  begin(now);
}

void SendWindow::resize(double rate, double trip) {
  double queue = std::max(static_cast<double>(kLeast), rate * to_seconds(kQueue));
  // As long as there is none, the window is what limits the rate.
  if (epoch_->there - shortest() < kQueue / 2) queue = std::max(queue, rate * trip);
  size_ = static_cast<std::size_t>(std::min(rate * trip + queue, static_cast<double>(kMost)));
}

void SendWindow::begin(Instant now) {
  epoch_ = {now, confirmed_, Duration::max()};
  held_ = false;
}

}  // namespace taxon::net
