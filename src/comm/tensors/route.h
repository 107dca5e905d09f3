#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/tensors/arena.h"
#include "comm/tensors/shape.h"

namespace taxon::comm {

/// Which way tensors go: from one member of a group to another. `unit` tells channels apart that have the
/// same ends. Equal at both ends.
struct TensorRoute {
  int sender = 0;    // members of the group
  int receiver = 1;  // another one
  std::uint32_t unit = 0;
};

/// Equal at both ends, unless it says otherwise (Error{Mismatch} when the channel is opened).
struct TensorOptions {
  /// Credits: so many tensors may be on their way or in use at the receiver. The sender waits for the rest.
  std::uint32_t depth = 2;
  Integrity integrity = Integrity::Fast;
};

/// How a tensor gets from one rank to another. Chosen when the channel is opened, by what the transport
/// offers between the two.
enum class TensorPath {
  Written,      // static: the sender writes into the receiver's memory: one copy, by the sender
  ReadInPlace,  // dynamic: the receiver uses the sender's memory where it is: no copy
  ReadCopied,   // dynamic: the receiver copies out of the sender's memory: one copy
  Messages      // no memory is shared: the network's own copies, and one out of its buffers at the receiver
};
/// "written into the receiver's memory", ...
const char* to_string(TensorPath path);

/// What one end has done, since it was opened.
struct TensorCounters {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;   // payload
  std::uint64_t copied = 0;  // bytes of it that this end's processor copied in user space, as far as it knows
};

/// A tensor that has arrived. The receiver's until it is handed to release(); a handle that was handed over
/// (or was never filled) has no bytes (checked), so that a late use is found. Move-only.
class ReceivedTensor {
 public:
  ReceivedTensor() = default;
  ReceivedTensor(ReceivedTensor&& other) noexcept
      : sequence_(std::exchange(other.sequence_, 0)),
        bytes_(other.bytes_),
        shape_(other.shape_),
        block_(std::move(other.block_)),
        there_(other.there_),
        checksum_(other.checksum_) {}
  ReceivedTensor& operator=(ReceivedTensor&& other) noexcept {
    sequence_ = std::exchange(other.sequence_, 0);
    bytes_ = other.bytes_;
    shape_ = other.shape_;
    block_ = std::move(other.block_);
    there_ = other.there_;
    checksum_ = other.checksum_;
    return *this;
  }
  explicit operator bool() const { return sequence_ != 0; }
  /// Where it is: the consumer's to write into as well, except on TensorPath::ReadInPlace, where it is the
  /// sender's memory. REQUIRES: not released.
  View bytes() const {
    TAXON_CHECK(sequence_ != 0, "a tensor was used after it was released");
    return bytes_;
  }
  const TensorShape& shape() const { return shape_; }
  /// Counts the channel's tensors from 1.
  std::uint64_t sequence() const { return sequence_; }

 private:
  friend class StaticReceiver;
  friend class DynamicReceiver;
  std::uint64_t sequence_ = 0;
  View bytes_;
  TensorShape shape_;
  TensorBlock block_;  // of the receiver's arena, if it is there
  RemoteBlock there_;  // of the sender's, if it is read in place
  std::uint64_t checksum_ = 0;
};

/// The ends' common part: for StaticSender and its like. An end lives where its task runs and outlives its
/// operations; the group, its runtime and the arenas outlive it.
class TensorEnd {
 public:
  enum class Role { Sender, Receiver };
  enum class Kind : std::uint32_t { Static, Dynamic };

  TensorEnd(Communicator& group, TensorRoute route, TensorOptions options, Role role);
  TensorEnd(const TensorEnd&) = delete;

  /// What an end tells the other when a channel is opened. Sent as it is.
  struct Facts {
    Kind kind = Kind::Static;
    std::uint32_t depth = 0;
    std::uint32_t integrity = 0;
    std::uint32_t first_signal = 0;
    TensorShape shape;          // static
    RemoteBlock slots;          // static: where the receiver wants the tensors
    std::uint64_t control = 0;  // dynamic: where the receiver wants the metadata
  };
  struct Opening {
    Facts facts;
    RemoteArena arena;  // the peer's; without regions if it needs none
  };
  /// Coroutine: tells the peer `facts` and gets its. Throws Error{Mismatch} when the two do not fit.
  task::Task<Opening> open(Facts facts, const TensorArena* arena);
  /// Coroutine: a byte to the peer, and its.
  static constexpr std::uint32_t kClosing = 1;  // the round in which the channel is closed
  task::Task<std::byte> agree(std::byte mine, std::uint32_t round);

  /// The value of one of this rank's own signals now.
  std::uint64_t look(std::uint32_t signal) const { return transport().signal(signal); }
  net::Transport& transport() const { return group_.runtime().transport; }
  Communicator& group() const { return group_; }
  net::Tag tag(std::uint64_t use, std::uint32_t round = 0) const;
  Rank peer() const { return peer_; }
  const TensorOptions& options() const { return options_; }
  bool checked() const { return options_.integrity == Integrity::Checked; }
  /// "rank 0 to rank 1, unit 3".
  std::string name() const;
  /// Error{kind} about this channel.
  Error error(ErrorKind kind, const std::string& what) const;

  TensorPath path = TensorPath::Written;
  TensorCounters counters;
  /// For reports: "tensors from rank 0 to rank 1, unit 3: read in place, through shared memory (sysv)".
  std::string describe() const;

 private:
  Communicator& group_;
  TensorRoute route_;
  TensorOptions options_;
  Rank peer_;
  net::Tag tag_;
};

/// Counts what the consumer gives back, in any order, as the credits that the sender may see: all up to n.
class Credits {
 public:
  explicit Credits(std::uint32_t depth) : returned_(depth, false) {}
  /// REQUIRES: received, not returned yet. True if given() grew.
  bool give(std::uint64_t sequence);
  std::uint64_t given() const { return given_; }

 private:
  std::vector<bool> returned_;  // [sequence % depth], of those above given_
  std::size_t early_ = 0;       // how many that are
  std::uint64_t given_ = 0;
};

/// Of a real payload; 0 of a phantom one.
std::uint64_t checksum_of_tensor(ConstView bytes);

}  // namespace taxon::comm
