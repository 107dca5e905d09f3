#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/tensors/remote.h"
#include "task/task.h"

namespace taxon::comm {

/// How much is checked. Generations, sequence numbers, bounds and shapes always are.
enum class Integrity {
  Fast,
  /// For debugging: payloads carry checksums, a writer says that it begins before it does, so that a tensor
  /// that is overwritten while somebody uses it is found, and freed memory is filled with a pattern.
  Checked
};

struct TensorArenaOptions {
  std::size_t bytes = std::size_t{64} << 20;
  std::uint32_t blocks = 1024;     // at most so many at a time
  std::size_t control = 16 << 10;  // bytes for what channels write besides tensors
  Integrity integrity = Integrity::Fast;
};

class TensorArena;

/// A piece of an arena, for one tensor. Copies share it; the last one gives the memory back, so a channel
/// that sent it keeps it until the peer has released it. Executor's thread only.
class TensorBlock {
 public:
  TensorBlock() = default;
  explicit operator bool() const { return lease_ != nullptr; }
  /// As many bytes as were asked for, aligned to 64. Not zeroed. REQUIRES: not empty.
  View bytes() const;
  /// REQUIRES: not empty.
  RemoteBlock remote() const;
  /// True while others hold it too: who writes into it would change what a peer reads.
  bool shared() const { return lease_.use_count() > 1; }

 private:
  friend class TensorArena;
  struct Lease;
  explicit TensorBlock(std::shared_ptr<Lease> lease) : lease_(std::move(lease)) {}
  std::shared_ptr<Lease> lease_;
};

/// Memory where tensors are born that peers may read and write: one region, registered once, cut into blocks
/// (best fit, joined again when they are given back). It never grows. Executor's thread only; outlives its
/// blocks and its channels, dies before the transport.
class TensorArena {
 public:
  /// Throws Error{Transport} that says what to do when the memory can't be had.
  TensorArena(net::Transport& transport, TensorArenaOptions options);
  TensorArena(const TensorArena&) = delete;
  ~TensorArena();

  /// Coroutine: a block. While there is no room and peers still read tensors that were sent from here, it
  /// waits until they release them. Throws Error{Transport} with the arena's map when nothing is out that
  /// could come back. `label` names the block in the map.
  task::Task<TensorBlock> allocate(std::size_t size, std::string label);
  /// Nothing when there is no room now.
  std::optional<TensorBlock> try_allocate(std::size_t size, const std::string& label);

  /// For peers; REQUIRES of them what docs/transport.md says of lifetimes.
  RemoteArena share() const;

  std::size_t capacity() const { return options_.bytes; }
  std::size_t used() const { return used_; }              // with rounding
  std::size_t high_water() const { return high_water_; }  // the most that was in use at a time
  Integrity integrity() const { return options_.integrity; }
  /// Who holds what, and what is free: a line for each piece.
  std::string map() const;

  /// For channels: somebody who lets peers read blocks and gets them back.
  class Lender {
   public:
    virtual ~Lender() = default;
    /// Gives up what peers have released by now.
    virtual void reclaim() = 0;
    virtual bool lends() const = 0;
    /// Coroutine: waits until the oldest one is released. REQUIRES: lends().
    virtual task::Task<void> wait_for_release() = 0;
  };
  void add(Lender& lender) { lenders_.push_back(&lender); }
  void remove(Lender& lender) { std::erase(lenders_, &lender); }

  /// For channels: zeroed memory that is real even where payloads are phantoms; its offset in control().
  /// Throws Error{Transport} when it runs out.
  std::size_t take_control(std::size_t size);
  void give_control(std::size_t offset);
  View control() const { return control_.bytes(); }

 private:
  friend class TensorBlock;
  struct Entry {
    std::size_t offset = 0, size = 0;  // rounded
    std::string label;
    bool used = false;
  };
  void give_back(const RemoteBlock& block);
  std::uint64_t raise_generation(std::uint32_t index);
  void reclaim();

  net::Transport& transport_;
  TensorArenaOptions options_;
  net::Region payload_;
  net::Region control_;
  std::map<std::size_t, std::size_t> free_;  // offset -> size
  std::vector<Entry> entries_;               // by index
  std::vector<std::uint32_t> free_entries_;  // the smallest at the end
  std::map<std::size_t, std::size_t> control_used_;
  std::vector<Lender*> lenders_;
  std::size_t used_ = 0, high_water_ = 0;
};

}  // namespace taxon::comm
