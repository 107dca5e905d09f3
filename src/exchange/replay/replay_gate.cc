#include "exchange/replay/replay_gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace taxon::exchange {
namespace {

constexpr const char* kBeyond = "it goes on beyond the order's end";

}  // namespace

ReplayCursor::ReplayCursor(std::string subject, const AsyncEvents& events, AsyncEvent::Role role,
                           std::int32_t unit)
    : subject_(std::move(subject)) {
  std::copy_if(events.begin(), events.end(), std::back_inserter(events_), [&](const AsyncEvent& event) {
    return AsyncEvent::role_of(event.kind) == role && event.unit == unit &&
           !AsyncEvent::is_consequence(event.kind);
  });
}

std::string ReplayCursor::where() const { return fmt::format("{} of {}", next_, events_.size()); }

void ReplayCursor::depart(const std::string& what) const {
  throw Error(
      ErrorKind::Mismatch,
      fmt::format("the run can't go on in the order that it follows: {}, after {} acts: {}. The order "
                  "is of other data or of another version, or it was changed: record it anew",
                  subject_, where(), what));
}

void ReplayGate::open(std::string subject, const EventLog& log, AsyncEvent::Role role, std::int32_t unit) {
  log_ = log;
  if (log.follow) cursor_.emplace(std::move(subject), *log.follow, role, unit);
}

task::Task<void> ReplayGate::take(AsyncEvent event) {
  if (cursor_) {
    if (cursor_->ended()) cursor_->depart(kBeyond);
    if (taken_ || cursor_->next() != event) {
      auto place = waiting_.emplace(waiting_.end(), event, *this);
      std::exception_ptr error;
      try {
        auto turn = place->turn.wait(kFollowed, cursor_->subject() + ", act " + cursor_->where());
        co_await turn;
      } catch (...) {
        error = std::current_exception();
      }
      waiting_.erase(place);
      if (error) std::rethrow_exception(error);
    }
    taken_ = true;
    cursor_->pass();
  }
  log_.note(event);
}

bool ReplayGate::also(const AsyncEvent& event, bool happens) {
  if (cursor_) {
    happens = !cursor_->ended() && cursor_->next() == event;
    if (happens) cursor_->pass();
  }
  if (happens) log_.note(event);
  return happens;
}

void ReplayGate::over() {
  if (!cursor_) return;
  taken_ = false;
  if (waiting_.empty()) return;
  if (cursor_->ended()) cursor_->depart(kBeyond);
  auto next = std::find_if(waiting_.begin(), waiting_.end(),
                           [&](const Waiting& waiting) { return waiting.event == cursor_->next(); });
  if (next == waiting_.end()) return;
  taken_ = true;     // nobody comes in between
  next->turn.set();  // who waited may be gone afterwards
}

}  // namespace taxon::exchange
