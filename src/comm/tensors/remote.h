#pragma once

#include <cstdint>
#include <vector>

#include "net/transport.h"

namespace taxon::comm {

/// A block of somebody's TensorArena, as a value that can be sent, stored and handed on. It is good as long
/// as the owner keeps the block; afterwards its generation is another one, which is how a late use is found.
struct RemoteBlock {
  std::uint64_t offset = 0;  // in the arena's payload
  std::uint64_t size = 0;    // bytes
  std::uint64_t generation = 0;
  std::uint32_t index = 0;  // of the block's word in the arena's ledger
  std::uint32_t unused = 0;
  friend bool operator==(const RemoteBlock&, const RemoteBlock&) = default;
};

/// Permission to touch another rank's TensorArena, as a value that can be sent. `control` begins with the
/// ledger: one generation word for each block, odd while the block is in use.
struct RemoteArena {
  net::RemoteRegion payload;
  net::RemoteRegion control;
  std::uint32_t blocks = 0;  // words in the ledger

  std::vector<std::byte> pack() const;
  /// Throws Error{Mismatch} if the bytes are not a packed arena.
  static RemoteArena unpack(ConstView bytes);

  Rank owner() const { return payload.owner; }
  /// Throws Error{Mismatch} unless the block lies inside the arena.
  void check_bounds(const RemoteBlock& block) const;
  /// Throws Error{Mismatch} unless [offset, offset + size) lies inside the block, and that inside the arena.
  void check_bounds(const RemoteBlock& block, std::size_t offset, std::size_t size) const;
};

/// Another rank's arena in this process's address space. A view: good until the transport dies, and for as
/// long as the owner keeps the arena.
class MappedArena {
 public:
  MappedArena() = default;
  /// Empty where the transport shares no memory with the owner.
  MappedArena(net::Transport& transport, const RemoteArena& arena);
  explicit operator bool() const { return mapped_; }

  /// The block's memory, to be read and written in place. Throws Error{Mismatch} for a block outside of the
  /// arena and for one that its owner has given up (see still_good()).
  View at(const RemoteBlock& block) const;
  /// False once the owner has given the block up. What was read before a true answer was the block's.
  bool still_good(const RemoteBlock& block) const;

 private:
  bool mapped_ = false;
  RemoteArena arena_;
  View payload_;
  View control_;
};

/// Where write_block() writes, and what it raises then.
struct BlockPlace {
  RemoteBlock block;
  std::size_t offset = 0;
  net::RemoteSignal signal;
  std::uint64_t value = 0;
};

/// Writes `from` into another rank's block and then raises the owner's signal, without any call at the owner:
/// whoever sees the signal sees the bytes. Over transports without shared memory the owner's transport
/// applies the write when it progresses. Throws Error{Mismatch} for wrong bounds before anything is sent. The
/// operation lives in the caller's frame, like every net::Op: `net::PutOp put = write_block(...); co_await
/// put;`. `arena` outlives it; it is done when `from` may be overwritten.
net::PutOp write_block(net::Transport& transport, const RemoteArena& arena, const BlockPlace& place,
                       ConstView from);

}  // namespace taxon::comm
