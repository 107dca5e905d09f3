#pragma once

#include <cstddef>

#include "plan/cluster.h"

namespace taxon::sim {

/// What a rank has taken of its device's memory, and how fast kernels read and write it therefore: where all
/// of it lies in caches, as fast as those.
class DeviceMemory {
 public:
  /// `model` outlives it.
  explicit DeviceMemory(const plan::DeviceModel& model) : model_(&model) {}

  std::size_t limit() const { return static_cast<std::size_t>(model_->memory); }
  std::size_t taken() const { return taken_; }
  bool has_room(std::size_t bytes) const { return limit() == 0 || taken_ + bytes <= limit(); }
  void take(std::size_t bytes) { taken_ += bytes; }
  void give_back(std::size_t bytes) { taken_ -= bytes; }
  /// Bytes per second.
  double bandwidth() const {
    const bool cached = model_->cache > 0 && taken_ <= static_cast<std::size_t>(model_->cache);
    return cached ? model_->cache_bandwidth : model_->memory_bandwidth;
  }

 private:
  const plan::DeviceModel* model_;
  std::size_t taken_ = 0;
};

}  // namespace taxon::sim
