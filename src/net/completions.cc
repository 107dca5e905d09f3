#include "net/completions.h"

namespace taxon::net {

bool Completions::run() {
  if (waiting_.empty()) return false;
  TAXON_CHECK(running_.empty(), "completions ran inside a completion");
  running_.swap(waiting_);
  for (std::size_t i = 0; i < running_.size(); ++i)
    if (Op* op = std::exchange(running_[i].op, nullptr)) op->complete(std::move(running_[i].error));
  running_.clear();
  return true;
}

bool Completions::forget(Op& op) {
  for (auto* list : {&waiting_, &running_})
    for (Done& done : *list)
      if (done.op == &op) {
        done.op = nullptr;
        return true;
      }
  return false;
}

}  // namespace taxon::net
