#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/named.h"
#include "base/time.h"

namespace taxon::task {

/// What one suspended operation waits for, in words for the hang report.
struct WaitInfo {
  std::string operation;     // "all_reduce ring", "lane", "backward"
  std::optional<Rank> peer;  // the rank that must act, if one is known
  std::string subject;       // bucket, parameter or file
  Instant since;
};

/// Words for one use of a unit of exchange: "bucket 3 (fc1.weight), step 17". Empty for a unit that it does
/// not know.
using UnitNames = std::function<std::string(std::int64_t unit, std::int64_t use)>;

class PendingOps;

/// Something that a coroutine is suspended on. Lives in the coroutine's frame; it is listed in its PendingOps
/// from the moment it starts until it finishes, so that it can be reported and cancelled.
class Wait {
 public:
  Wait() = default;
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  virtual ~Wait() { unlist(); }
  virtual WaitInfo describe() const = 0;

 protected:
  /// First half of cancellation: take the operation away from whoever would finish it (the network must have
  /// let go of its buffer when this returns) and remember `why`. Resumes nobody. False: it can't be cancelled
  /// and will finish by itself.
  virtual bool release(std::exception_ptr why) = 0;
  /// Second half: resume the waiting coroutine, if there is one. `this` may be gone afterwards.
  virtual void resume_released() = 0;

  void list_in(PendingOps& pending);
  void unlist();
  bool listed() const { return pending_ != nullptr; }

 private:
  friend class PendingOps;
  PendingOps* pending_ = nullptr;
  Wait* previous_ = nullptr;
  Wait* next_ = nullptr;
};

/// Every operation that the coroutines of one rank (or of one part of it) are suspended on.
/// One thread: the executor's. A PendingOps outlives its Wait objects.
class PendingOps {
 public:
  PendingOps() = default;
  PendingOps(const PendingOps&) = delete;
  PendingOps& operator=(const PendingOps&) = delete;
  ~PendingOps();

  /// Fails every wait with `why`, and at once every later one. Two phases: first all are released, then their
  /// coroutines resume, so that a frame that unwinds never holds an operation that the network still owns.
  /// The first call counts.
  void cancel(std::exception_ptr why);
  /// Null until cancel().
  std::exception_ptr cancelled() const { return why_; }

  /// What is being waited for, oldest first.
  std::vector<WaitInfo> snapshot() const;
  std::size_t size() const { return size_; }

  /// What operations call their units in reports and errors from now on: only whoever made the units knows
  /// what they hold.
  void name_units(UnitNames names) { names_ = std::move(names); }
  std::string name_of(std::int64_t unit, std::int64_t use) const {
    return names_ ? names_(unit, use) : std::string();
  }

 private:
  friend class Wait;
  Wait* first_ = nullptr;
  Wait* last_ = nullptr;
  std::size_t size_ = 0;
  std::exception_ptr why_;
  UnitNames names_;
};

}  // namespace taxon::task
