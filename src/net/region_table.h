#pragma once

#include <cstdint>
#include <map>

#include "base/view.h"

namespace taxon::net {

/// The regions of one rank that exist now: what a peer may write to.
class RegionTable {
 public:
  void add(View region) { sizes_.emplace(key(region.data()), region.size()); }
  void remove(View region) { sizes_.erase(key(region.data())); }
  std::size_t size() const { return sizes_.size(); }
  /// True if [address, address + size) lies in one region.
  bool contains(std::uint64_t address, std::size_t size) const {
    auto after = sizes_.upper_bound(address);
    if (after == sizes_.begin()) return false;
    auto [begin, length] = *std::prev(after);
    return size <= length && address - begin <= length - size;
  }

 private:
  static std::uint64_t key(const std::byte* data) { return reinterpret_cast<std::uint64_t>(data); }
  std::map<std::uint64_t, std::size_t> sizes_;
};

}  // namespace taxon::net
