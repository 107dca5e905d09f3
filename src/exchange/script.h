#pragma once

#include <list>
#include <optional>
#include <string>

#include "exchange/acts.h"
#include "task/event.h"
#include "task/task.h"

namespace taxon::exchange {

/// What waits of who follows an order are called.
inline constexpr const char* kFollowed = "the order that is followed";

/// What one role of this rank did with one unit in a run whose order is followed, act by act; but for what is
/// applied in an update, which goes with it.
class Script {
 public:
  /// `subject` names the acts in messages: "fc1.weight", "reports".
  Script(std::string subject, const Acts& acts, Act::Role role, std::int32_t unit);

  const std::string& subject() const { return subject_; }
  bool ended() const { return next_ == acts_.size(); }
  /// REQUIRES: it has not ended.
  const Act& next() const { return acts_[next_]; }
  void pass() { ++next_; }
  /// "3 of 17": how far it got.
  std::string where() const;
  /// Throws the Error{Mismatch} of a run that can't go on as this says, because of `what`.
  [[noreturn]] void depart(const std::string& what) const;

 private:
  std::string subject_;
  Acts acts_;
  std::size_t next_ = 0;
};

/// Lets coroutines of this rank act in the order of a script: each waits until its act is next. Where there
/// is none they act as they come. Either way it is recorded. Executor's thread only.
class Turns {
 public:
  Turns(task::Executor& executor, task::Waits& waits) : executor_(executor), waits_(waits) {}
  Turns(const Turns&) = delete;

  void open(std::string subject, const Chronicle& chronicle, Act::Role role, std::int32_t unit);
  bool follows() const { return script_.has_value(); }
  /// Returns when `act` is next. Nobody else has a turn until over(). Throws Error{Mismatch} when the script
  /// has ended.
  task::Task<void> take(Act act);
  /// Inside a turn: true if `act` is the next of the script and belongs to this turn; without a script, what
  /// `happens` says.
  bool also(const Act& act, bool happens);
  void over();

 private:
  struct Waiting {
    Waiting(const Act& act, Turns& turns) : act(act), turn(turns.executor_, turns.waits_) {}
    Act act;
    task::Event turn;
  };
  task::Executor& executor_;
  task::Waits& waits_;
  Chronicle chronicle_;
  std::optional<Script> script_;
  bool taken_ = false;
  std::list<Waiting> waiting_;
};

}  // namespace taxon::exchange
