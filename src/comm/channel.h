#pragma once

#include <memory>
#include <vector>

#include "comm/collectives.h"

namespace taxon::comm {

/// What the members of a group that shares memory meet at, one for each key (operation, lane, unit), opened
/// at the key's first use: signals, one for each other member, and, if wanted, a region that all of them map.
/// A signal counts the channel's meetings, and its lower bits tell what the member came with, so that ranks
/// that disagree are found without another message.
class Channel {
 public:
  /// Collective: opens the channel of `tag`'s key, unless it is open with at least `slot_bytes` for each
  /// member. `call` as the collective got it.
  static task::Task<void> open(Communicator& group, net::Tag tag, const Call& call, std::size_t slot_bytes);
  /// True if open() has nothing to do.
  static bool is_open(Communicator& group, const net::Tag& tag, std::size_t slot_bytes);

  /// `own`: the first of the signals that this rank allotted for it; `theirs`, by member, likewise.
  /// `meetings`: that the signals have counted before.
  Channel(Communicator& group, std::vector<std::uint32_t> theirs, std::uint32_t own, std::uint64_t meetings,
          net::Transport::SignalsName name);
  Channel(const Channel&) = delete;
  /// Its signals are there for the next channel of as many members at the same place of a group's: every run
  /// of a job opens channels of its own.
  ~Channel();

  /// Begins the next meeting.
  void advance() { ++meeting_; }
  /// Coroutine: tells `member` that this rank has reached the meeting: what it stored before is visible to
  /// whoever waits for it.
  task::Task<void> raise(int member, const Call& call);
  /// Coroutine: waits until `member` has reached the meeting. Throws Error{Mismatch} when it came with
  /// another size or type.
  task::Task<void> wait(int member, net::Tag tag, const Call& call);
  /// Coroutine: the next meeting of all: nobody returns before all have come.
  task::Task<void> meet(net::Tag tag, const Call& call);

  /// Member i's slots, of equal size.
  const std::vector<View>& slots() const { return slots_; }
  /// Counts the uses of the slots.
  std::uint64_t next_use() { return uses_++; }

 private:
  net::RemoteSignal signal_at(int member) const;
  std::uint64_t value(const Call& call) const;
  [[noreturn]] static void disagree(Communicator& group, int member, const net::Tag& tag, const Call& call);

  Communicator& group_;
  std::vector<std::uint32_t> theirs_;  // [member]: first of the signals that it allotted
  std::uint32_t own_;
  std::uint64_t meeting_;
  const net::Transport::SignalsName name_;
  std::uint64_t uses_ = 0;
  net::Region region_;
  std::vector<View> slots_;
};

}  // namespace taxon::comm
