#include "comm/failure_monitor.h"

#include "base/error.h"

namespace taxon::comm {

void FailureMonitor::report_lost(Rank rank, std::exception_ptr why) {
  TAXON_CHECK(is_expendable(rank), "nobody can do without rank ", rank.value());
  if (lost(rank)) return;
  lost_.emplace_back(rank, why);
  // The last that was guarded first. Whoever is told may end, and others with it.
  auto next = [&] {
    return std::find_if(listeners_.rbegin(), listeners_.rend(),
                        [&](const Listener* one) { return one->rank_ == rank && !one->told_; });
  };
  for (auto found = next(); found != listeners_.rend(); found = next()) {
    Listener* listener = *found;
    listener->told_ = true;
    listener->happened(why);
  }
}

std::exception_ptr FailureMonitor::lost(Rank rank) const {
  for (const auto& [lost, why] : lost_)
    if (lost == rank) return why;
  return nullptr;
}

FailureMonitor::Listener::Listener(FailureMonitor* failures, Rank rank) : failures_(failures), rank_(rank) {
  if (failures_) failures_->listeners_.push_back(this);
}

FailureMonitor::Listener::~Listener() {
  if (failures_) std::erase(failures_->listeners_, this);
}

GuardedOp::GuardedOp(FailureMonitor* failures, net::Transport& transport, net::Op& op)
    : Listener(failures, op.peer), transport_(transport), op_(op) {
  if (!failures) return;
  if (auto why = failures->lost(op.peer)) happened(why);
}

void GuardedOp::happened(std::exception_ptr why) {
  if (op_.done()) return;
  transport_.forget(op_);
  op_.complete(why);
}

GuardedEvent::GuardedEvent(FailureMonitor* failures, Rank rank, task::Event& event)
    : Listener(failures, rank), event_(event) {
  if (!failures) return;
  if (auto why = failures->lost(rank)) event_.fail(why);
}

bool is_expendable_loss(FailureMonitor* failures, Rank rank, const std::exception_ptr& error) {
  if (!failures || !failures->is_expendable(rank)) return false;
  if (failures->lost(rank)) return true;
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    if (known.kind() != ErrorKind::Transport && known.kind() != ErrorKind::PeerLost) return false;
    if (known.context().rank != rank) return false;
  } catch (...) {
    return false;
  }
  failures->report_lost(rank, error);
  return true;
}

}  // namespace taxon::comm
