#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/runtime.h"
#include "comm/scratch.h"
#include "task/task.h"

namespace taxon::comm {

class Channel;

/// Memory of every member of a group that this process can read and write directly. Empty where any pair
/// shares none.
struct PeerMemory {
  std::vector<View> members;  // [i] is member i's region, this process's own included
  bool mapped() const { return !members.empty(); }
};

/// An ordered group of ranks that enters operations on each unit in the same order. Tags are derived from the
/// group's name and members, not from the order of creation, so any number of communicators may exist and
/// overlap. Executor's thread only.
///
/// Peers look into a member's memory: the communicator and the regions that were shared through it live until
/// every member's last collective has ended. A barrier at the end makes that sure.
class Communicator {
 public:
  /// `name` is the mesh axis or level ("data", "data/node0"): equal on all members, unique among groups with
  /// the same members. `members` are distinct ranks, the own one among them.
  Communicator(Runtime& runtime, std::string_view name, std::vector<Rank> members);
  Communicator(const Communicator&) = delete;
  ~Communicator();

  int rank() const { return rank_; }  // position in the group
  int size() const { return static_cast<int>(members_.size()); }
  Rank global(int member) const { return members_[static_cast<std::size_t>(member)]; }
  const std::vector<Rank>& members() const { return members_; }
  Runtime& runtime() const { return runtime_; }

  /// The tag of the next use of (operation, lane, unit): every member calls it once per use, in the same
  /// order for the same key.
  net::Tag begin(net::Operation operation, std::uint32_t unit, std::uint16_t lane = 0);

  /// The tag of an operation whose uses the caller counts itself, in tag.sequence: of protocols between two
  /// members. Distinct from those of begin() only if no other use has its operation and unit.
  net::Tag tag(net::Operation operation, std::uint32_t unit) const;

  /// The group goes on without some of its members, under another name: nothing of before is on its way. Then
  /// as after the constructor.
  void narrow(std::string_view name, std::vector<Rank> members);

  /// Collective, first: learns whether every pair of members shares memory.
  task::Task<void> establish();
  /// Collective: makes `region`, of equal size at every member (Error{Mismatch} otherwise), known to the
  /// others. Afterwards `peers(view)` finds the members' memory behind any view into it. An empty region is
  /// allowed, at every member.
  task::Task<void> share(const net::Region& region);

  /// The members' memory behind `view`, each cut to the same offset and size; not mapped when the view lies
  /// in no shared region or when some members can't reach each other's memory (the answer is the same at
  /// every member, if their views lie at the same offset of the same region).
  PeerMemory peers(View view) const;
  /// True if every pair of members shares memory. The same at every member; known after establish().
  bool shares_memory() const { return shares_memory_; }

  /// Collective: `mine`, of equal size at every member, of every member, one after the other. For small
  /// things: everybody sends to everybody.
  task::Task<std::vector<std::byte>> gather(net::Tag tag, ConstView mine);
  /// Collective: gather() for regions: every member's, mapped here; no views if any member could not map
  /// all of them.
  task::Task<std::vector<View>> map_all(net::Tag tag, const net::Region& region);

  /// For the collectives: memory for partial results, and the channel of a key (null until it is opened).
  ScratchPool& scratch() { return scratch_; }
  std::unique_ptr<Channel>& channel(const net::Tag& tag);
  /// What of a tag says which channel, or which sequence of uses: the operation, the lane and the unit.
  static std::uint64_t key(const net::Tag& tag);

 private:
  struct Key;
  void identify(std::string_view name);
  struct Shared {
    View own;
    std::vector<View> members;
  };
  Runtime& runtime_;
  std::vector<Rank> members_;
  int rank_ = 0;
  std::uint32_t group_ = 0;
  bool shares_memory_ = false;
  std::unordered_map<std::uint64_t, Key> keys_;  // never iterated
  std::vector<Shared> shared_;
  ScratchPool scratch_;
};

}  // namespace taxon::comm
