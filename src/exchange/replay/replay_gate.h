#pragma once

#include <list>
#include <optional>
#include <string>

#include "exchange/replay/async_event.h"
#include "task/event.h"
#include "task/task.h"

namespace taxon::exchange {

/// Label of waits that a replayed order causes, for hang reports.
inline constexpr const char* kFollowed = "the order that is followed";

/// What one role of this rank did with one unit in a run whose order is followed, act by act; but for what is
/// applied in an update, which goes with it.
class ReplayCursor {
 public:
  /// `subject` names the acts in messages: "fc1.weight", "reports".
  ReplayCursor(std::string subject, const AsyncEvents& events, AsyncEvent::Role role, std::int32_t unit);

  const std::string& subject() const { return subject_; }
  bool ended() const { return next_ == events_.size(); }
  /// REQUIRES: it has not ended.
  const AsyncEvent& next() const { return events_[next_]; }
  void pass() { ++next_; }
  /// "3 of 17": how far it got.
  std::string where() const;
  /// Throws the Error{Mismatch} of a run that can't go on as this says, because of `what`.
  [[noreturn]] void depart(const std::string& what) const;

 private:
  std::string subject_;
  AsyncEvents events_;
  std::size_t next_ = 0;
};

/// Lets coroutines of this rank act in the order of a log: each waits until its event is next. Where there
/// is none they act as they come. Either way it is recorded. Executor's thread only.
class ReplayGate {
 public:
  ReplayGate(task::Executor& executor, task::PendingOps& pending) : executor_(executor), pending_(pending) {}
  ReplayGate(const ReplayGate&) = delete;

  void open(std::string subject, const EventLog& log, AsyncEvent::Role role, std::int32_t unit);
  bool follows() const { return cursor_.has_value(); }
  /// Returns when `event` is next. Nobody else has a turn until over(). Throws Error{Mismatch} when the log
  /// has ended.
  task::Task<void> take(AsyncEvent event);
  /// Inside a turn: true if `event` is the next of the log and belongs to this turn; without one, what
  /// `happens` says.
  bool also(const AsyncEvent& event, bool happens);
  void over();

 private:
  struct Waiting {
    Waiting(const AsyncEvent& event, ReplayGate& turns)
        : event(event), turn(turns.executor_, turns.pending_) {}
    AsyncEvent event;
    task::Event turn;
  };
  task::Executor& executor_;
  task::PendingOps& pending_;
  EventLog log_;
  std::optional<ReplayCursor> cursor_;
  bool taken_ = false;
  std::list<Waiting> waiting_;
};

}  // namespace taxon::exchange
