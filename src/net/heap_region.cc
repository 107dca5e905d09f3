#include "net/heap_region.h"

#include <cstdlib>
#include <cstring>

namespace taxon::net {
namespace {

constexpr std::size_t kAlignment = 64;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

class Memory final : public Region::Impl {
 public:
  Memory(RegionTable& regions, Rank owner, std::byte* memory, std::size_t size)
      : regions_(regions), owner_(owner), memory_(memory), size_(size) {
    regions_.add(bytes());
  }
  ~Memory() override { regions_.remove(bytes()); }
  View bytes() const override { return View(memory_.get(), size_); }
  RemoteRegion share() const override {
    return {owner_, reinterpret_cast<std::uint64_t>(memory_.get()), size_, {}};
  }

 private:
  RegionTable& regions_;
  Rank owner_;
  std::unique_ptr<std::byte, FreeMemory> memory_;
  std::size_t size_;
};

}  // namespace

Region allocate_on_heap(RegionTable& regions, Rank owner, std::size_t size) {
  TAXON_CHECK(size > 0, "an empty region");
  const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw Error(ErrorKind::Transport, "out of memory for a region");
  std::memset(memory, 0, rounded);
  return Region(std::make_unique<Memory>(regions, owner, memory, size));
}

}  // namespace taxon::net
