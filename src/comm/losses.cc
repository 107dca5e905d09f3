#include "comm/losses.h"

#include "base/error.h"

namespace taxon::comm {

void Losses::lose(Rank rank, std::exception_ptr why) {
  TAXON_CHECK(spares(rank), "nobody can do without rank ", rank.value());
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

std::exception_ptr Losses::lost(Rank rank) const {
  for (const auto& [lost, why] : lost_)
    if (lost == rank) return why;
  return nullptr;
}

Losses::Listener::Listener(Losses* losses, Rank rank) : losses_(losses), rank_(rank) {
  if (losses_) losses_->listeners_.push_back(this);
}

Losses::Listener::~Listener() {
  if (losses_) std::erase(losses_->listeners_, this);
}

GuardedOp::GuardedOp(Losses* losses, net::Transport& transport, net::Op& op)
    : Listener(losses, op.peer), transport_(transport), op_(op) {
  if (!losses) return;
  if (auto why = losses->lost(op.peer)) happened(why);
}

void GuardedOp::happened(std::exception_ptr why) {
  if (op_.done()) return;
  transport_.forget(op_);
  op_.complete(why);
}

GuardedEvent::GuardedEvent(Losses* losses, Rank rank, task::Event& event)
    : Listener(losses, rank), event_(event) {
  if (!losses) return;
  if (auto why = losses->lost(rank)) event_.fail(why);
}

bool is_spared_loss(Losses* losses, Rank rank, const std::exception_ptr& error) {
  if (!losses || !losses->spares(rank)) return false;
  if (losses->lost(rank)) return true;
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    if (known.kind() != ErrorKind::Transport && known.kind() != ErrorKind::PeerLost) return false;
    if (known.context().rank != rank) return false;
  } catch (...) {
    return false;
  }
  losses->lose(rank, error);
  return true;
}

}  // namespace taxon::comm
