#include "sim/message_cpu_cost.h"

namespace taxon::sim {

std::optional<Duration> MessageCpuCost::go_on() {
  const Piece piece = pieces_.front();
  const Message& message = *piece.message;
  if (!working_) {
    const HandlingCost& cost = piece.end == End::Sender ? message.route.send : message.route.receive;
    const Duration time = thread_.from_core(cost.of(message.travelling));
    if (time > Duration(0)) {
      working_ = true;
      return time;
    }
  }
  working_ = false;
  pieces_.pop_front();
  listener_.handled(*piece.message, piece.end);
  return {};
}

}  // namespace taxon::sim
