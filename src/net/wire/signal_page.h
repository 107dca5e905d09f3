#pragma once

#include <atomic>
#include <cstdint>

#include "base/view.h"
#include "net/wire/remote_fence.h"

namespace taxon::net {

/// The memory of a rank's signals, which peers on its host map: a line of announcements, then one for each
/// signal. A view; whoever allocated the memory keeps it.
///
/// A signal has one raiser at a time.
///
/// Sleep protocol: the owner stores asleep = 1 and then looks at its signals; a peer raises a signal and then
/// looks at asleep. A fence between the two, on both sides, makes at least one of them see the other. Either
/// each has its own, or the owner of the page executes the raisers' with its own (net/wire/remote_fence.h).
class SignalPage {
 public:
  static constexpr std::size_t kLine = 128;  // two cache lines, which processors fetch together
  static constexpr std::size_t bytes_for(std::uint32_t signals) { return kLine * (signals + std::size_t{1}); }

  SignalPage() = default;
  explicit SignalPage(View memory) : memory_(memory) {}
  explicit operator bool() const { return memory_.data() != nullptr; }

  /// Proves to a peer that it mapped the right memory.
  std::uint64_t& nonce() const { return word<std::uint64_t>(8); }

  /// Who sees a value sees the bytes that its raiser wrote before.
  std::uint64_t value(std::uint32_t index) const { return cell(index).load(std::memory_order_seq_cst); }
  /// The bytes that the caller wrote before are visible to whoever sees the value. It does not look at the
  /// old value, which would fetch the line from the owner's cache.
  /// REQUIRES: not less than before.
  void raise(std::uint32_t index, std::uint64_t value) const {
    cell(index).store(value, std::memory_order_release);
  }
  /// After raise(): true if the owner sleeps and the caller is the one to wake it. `fence`: whether the
  /// caller's process can be fenced by the owner's.
  bool must_wake(RemoteFence fence) const {
    if (fence == RemoteFence::Available && owner_fences().load(std::memory_order_relaxed) != 0)
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the processor's is the owner's
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    return asleep().load(std::memory_order_seq_cst) != 0 &&
           asleep().exchange(0, std::memory_order_seq_cst) != 0;
  }

  /// The owner's, before peers map the page: announce_sleep() will fence them.
  void announce_fences() const { owner_fences().store(1, std::memory_order_relaxed); }
  /// The owner's: after it, the owner must look at its signals before it sleeps.
  void announce_sleep() const {
    asleep().store(1, std::memory_order_seq_cst);
    if (owner_fences().load(std::memory_order_relaxed) != 0)
      fence_processes();
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void announce_awake() const { asleep().store(0, std::memory_order_relaxed); }

 private:
  template <class T>
  T& word(std::size_t offset) const {
    return *reinterpret_cast<T*>(memory_.data() + offset);
  }
  std::atomic_ref<std::uint32_t> asleep() const { return std::atomic_ref(word<std::uint32_t>(0)); }
  std::atomic_ref<std::uint32_t> owner_fences() const { return std::atomic_ref(word<std::uint32_t>(4)); }
  std::atomic_ref<std::uint64_t> cell(std::uint32_t index) const {
    return std::atomic_ref(word<std::uint64_t>(kLine * (index + std::size_t{1})));
  }
  static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free, "processes share the cells");
  View memory_;
};

}  // namespace taxon::net
