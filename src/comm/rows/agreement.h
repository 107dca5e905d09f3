#pragma once

#include <optional>

#include "comm/collectives.h"
#include "comm/communicator.h"

namespace taxon::comm {

/// A message ahead of a collective that is cut into segments, since segments of ranks that disagree on the
/// size may fit each other by chance. It travels in round 0, where an unsegmented collective has its first
/// payload, so that a rank that cuts and one that does not are found too. It costs no time: the first segment
/// follows without waiting.
class SizeHandshake {
 public:
  explicit SizeHandshake(const Call& call) : own_{call.data.size(), static_cast<std::uint32_t>(call.type)} {}
  /// Tells `member` what this rank came with. At most two members.
  void tell(Communicator& group, net::Tag tag, int member);
  /// Starts to hear what `member` came with. At most two members.
  void receive(Communicator& group, net::Tag tag, int member);
  /// Coroutine: throws Error{Mismatch} that names a member that came with something else.
  task::Task<void> check(Communicator& group);

 private:
  struct Facts {
    std::uint64_t bytes = 0;
    std::uint32_t type = 0;
    std::uint32_t unused = 0;
    friend bool operator==(const Facts&, const Facts&) = default;
  };
  Facts own_;
  Facts theirs_[2];
  std::optional<net::SendOp> sends_[2];
  std::optional<net::RecvOp> receives_[2];
};

}  // namespace taxon::comm
