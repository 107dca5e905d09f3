#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/runtime.h"
#include "task/task.h"

namespace taxon::comm {

/// Memory of every member of a group that this process can read and write directly. Empty where any pair
/// shares none.
struct PeerMemory {
  std::vector<View> members;  // [i] is member i's region, this process's own included
  bool mapped() const { return !members.empty(); }
};

/// An ordered group of ranks that enters operations on each unit in the same order. Tags are derived from the
/// group's name and members, not from the order of creation, so any number of communicators may exist and
/// overlap. Executor's thread only.
class Communicator {
 public:
  /// `name` is the mesh axis or level ("data", "data/node0"): equal on all members, unique among groups with
  /// the same members. `members` are distinct ranks, the own one among them.
  Communicator(Runtime& runtime, std::string_view name, std::vector<Rank> members);
  Communicator(const Communicator&) = delete;

  int rank() const { return rank_; }  // position in the group
  int size() const { return static_cast<int>(members_.size()); }
  Rank global(int member) const { return members_[static_cast<std::size_t>(member)]; }
  Runtime& runtime() const { return runtime_; }

  /// The tag of the next use of (operation, lane, unit): every member calls it once per use, in the same
  /// order for the same key.
  net::Tag begin(net::Operation operation, std::uint32_t unit, std::uint16_t lane = 0);

  /// Collective: makes `region`, of equal size at every member, known to the others. Afterwards `peers(view)`
  /// finds the members' memory behind any view into it.
  task::Task<void> share(const net::Region& region);
  /// The members' memory behind `view`, each cut to the same offset and size; not mapped when the view lies
  /// in no shared region or when some members can't reach each other's memory (the answer is the same at
  /// every member).
  PeerMemory peers(View view) const;
  /// True if every pair of members shares memory. The same at every member; known after establish() or
  /// share().
  bool shares_memory() const { return shares_memory_; }

  /// Collective, first: allots signals and staging memory for the direct collectives and learns who shares
  /// memory.
  task::Task<void> establish();

  /// State of the direct collectives; null before establish() or without shared memory. See comm/direct.h.
  struct DirectState;
  DirectState* direct() const { return direct_.get(); }
  ~Communicator();

 private:
  struct Shared {
    View own;
    std::vector<View> members;
    std::vector<net::RemoteRegion> remote;
  };
  Runtime& runtime_;
  std::vector<Rank> members_;
  int rank_ = 0;
  std::uint32_t group_ = 0;
  std::map<std::uint64_t, std::uint32_t> sequences_;
  std::vector<Shared> shared_;
  bool shares_memory_ = false;
  std::unique_ptr<DirectState> direct_;
};

}  // namespace taxon::comm
