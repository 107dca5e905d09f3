#include "comm/in_flight.h"

namespace taxon::comm {

task::Task<void> settle(task::PendingOps& pending, task::Task<void> body) {
  std::exception_ptr error;
  try {
    co_await body;
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) co_return;
  pending.cancel(error);
  std::rethrow_exception(error);
}

}  // namespace taxon::comm
