#pragma once

#include <functional>
#include <queue>

#include "sim/coarse.h"
#include "task/wait.h"

namespace taxon::sim {

/// A member that waits in a rendezvous. Awaitable, once; lives in the member's coroutine.
class Coarse::Entry final : public task::Wait {
 public:
  /// `source` is what the member brings, `target` where the outcome goes (or `all`, which takes it whole).
  struct Payload {
    ConstView source;
    View target;
    std::vector<std::byte>* all = nullptr;
  };
  Entry(Rendezvous& rendezvous, comm::Communicator& group, Payload payload);
  ~Entry() override = default;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> then);
  void await_resume() const;
  task::WaitInfo describe() const override;

  int member() const { return member_; }
  const Payload& payload() const { return payload_; }
  /// Lets the member go. `this` may be gone afterwards.
  void finish();

 protected:
  bool release(std::exception_ptr why) override;
  void resume_released() override { then_.resume(); }

 private:
  Rendezvous& rendezvous_;
  task::PendingOps& waits_;
  task::Executor& executor_;
  const int member_;
  const Payload payload_;
  Instant since_;
  std::coroutine_handle<> then_;
  std::exception_ptr error_;
};

/// One use of a collective by all members of a group.
class Coarse::Rendezvous final : public Flows::Flow {
 public:
  Rendezvous(Coarse& owner, Party& party, const Subject& subject);
  ~Rendezvous();

  const Subject& subject() const { return subject_; }
  const Party& party() const { return party_; }
  /// The first that came.
  int first() const { return first_; }
  void enter(Entry& entry);
  void leave(const Entry& entry);
  /// Whom this member waits for; none: only for time.
  std::optional<Rank> missing(int member) const;
  /// The member's outcome goes where it wants it.
  void hand_out(const Entry& entry) const;
  bool is_over() const { return waiting_ == 0 && (broken_ || gone_ == entries_.size()); }

 private:
  struct Due {
    Duration at;
    int member;
    bool operator>(const Due& other) const { return at != other.at ? at > other.at : member > other.member; }
  };
  static std::size_t index(int member) { return static_cast<std::size_t>(member); }
  bool has_come(int member) const { return came_[index(member)] >= Instant(); }
  void begin(Instant when);
  void all_are_here();
  void reach(int member, Duration late);
  void reach_children(int member);
  void decide();
  void call_next();
  void made(Duration progress) override;

  Coarse& owner_;
  Party& party_;
  const Subject subject_;
  std::shared_ptr<const Profile> profile_;
  std::vector<Entry*> entries_;
  std::vector<Instant> came_;   // before 0: not yet
  std::vector<Duration> late_;  // with Schedule::behind: negative: not reached yet
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<std::byte> outcome_;
  bool has_outcome_ = false;
  int first_ = -1, left_first_ = -1;
  std::size_t here_ = 0, waiting_ = 0, gone_ = 0, reached_ = 0;
  bool broken_ = false, releasing_ = false, loaded_ = false;
};

}  // namespace taxon::sim
