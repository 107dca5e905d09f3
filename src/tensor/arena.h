#pragma once

#include <string>
#include <vector>

#include "base/aligned_memory.h"
#include "base/view.h"
#include "net/transport.h"

namespace taxon::tensor {

/// One tensor's place in an arena.
struct Slot {
  std::string name;
  std::vector<std::int64_t> shape;
  Range range;  // elements, not bytes
};

/// What an arena holds, before it has memory: slots in order, each starting at a multiple of kAlignment
/// bytes. Pure data; equal on all ranks.
class ArenaLayout {
 public:
  static constexpr std::size_t kAlignment = 64;
  explicit ArenaLayout(DType type) : type_(type) {}
  /// Appends a slot; returns its range.
  Range add(std::string name, std::vector<std::int64_t> shape);
  DType type() const { return type_; }
  const std::vector<Slot>& slots() const { return slots_; }
  /// Elements, padding included.
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * size_of(type_); }

 private:
  DType type_;
  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

/// Flat, typed memory for all tensors of one purpose (compute copy, master weights, gradients, optimiser
/// state). Born in the transport's memory when peers may touch it, otherwise ordinary; zeroed. Padding stays
/// zero. Phantom where the transport's memory is. Move-only.
class Arena {
 public:
  Arena() = default;
  /// Memory of the transport's, which outlives the arena.
  Arena(net::Transport& transport, DType type, std::size_t size);
  /// Private memory; none, only a size, when it is to stand beside a phantom.
  Arena(DType type, std::size_t size, View beside = {});
  /// Memory of somebody else's, which outlives the arena; private as seen from it.
  static Arena over(DType type, View bytes);

  DType type() const { return type_; }
  std::size_t size() const { return size_; }  // elements
  View bytes() const { return bytes_; }
  View bytes(Range range) const {
    return bytes_.slice(range.begin * size_of(type_), range.size * size_of(type_));
  }
  /// REQUIRES: T is the C++ type of type().
  template <class T>
  std::span<T> values(Range range) const {
    TAXON_CHECK(sizeof(T) == size_of(type_));
    return as_span<T>(bytes(range));
  }
  /// Empty for private memory.
  const net::Region& region() const { return region_; }

 private:
  DType type_ = DType::Float32;
  std::size_t size_ = 0;
  net::Region region_;
  AlignedMemory memory_;
  View bytes_;
};

}  // namespace taxon::tensor
