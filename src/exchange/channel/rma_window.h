#pragma once

#include <array>

#include "tensor/arena.h"

namespace taxon::exchange {

/// Where a rank wants values that another rank of its host writes straight there ("static placement" of arXiv
/// 1805.08430, section 3.2), as the two tell each other. Sent as it is.
struct WindowDescriptor {
  static constexpr std::size_t kRoom = 464;
  std::uint64_t offset = 0;  // in the region
  std::uint64_t size = 0;    // bytes
  std::uint32_t signal = 0;  // of who wants them: counts what the other has written
  std::uint32_t packed = 0;  // bytes of `region`; 0: nowhere
  std::array<std::byte, kRoom> region{};
};

/// Elements of an arena. Nowhere if that lies in private memory, or if `range` is empty.
WindowDescriptor describe_window(const tensor::Arena& arena, Range range, std::uint32_t signal);

/// A place of another rank's that this one may write to.
class RemoteWindow {
 public:
  RemoteWindow() = default;
  /// Throws Error{Mismatch} unless it is nowhere, or `size` bytes in a region of `owner` and a signal of the
  /// `signals` that every rank has.
  RemoteWindow(const WindowDescriptor& told, Rank owner, std::size_t size, std::uint32_t signals);
  explicit operator bool() const { return region_.size > 0; }

  const net::RemoteRegion& region() const { return region_; }
  std::size_t offset() const { return offset_; }
  net::RemoteSignal signal() const { return {region_.owner, signal_}; }
  /// In this process's address space; empty if it can't be mapped, or not as large as was told.
  View map(net::Transport& transport) const;

 private:
  net::RemoteRegion region_;
  std::size_t offset_ = 0, size_ = 0;
  std::uint32_t signal_ = 0;
};

}  // namespace taxon::exchange
