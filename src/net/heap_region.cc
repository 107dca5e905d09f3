#include "net/heap_region.h"

#include "base/aligned_memory.h"

namespace taxon::net {
namespace {

class HeapRegion final : public Region::Impl {
 public:
  HeapRegion(RegionTable& regions, Rank owner, AlignedMemory memory, std::size_t size)
      : regions_(regions), owner_(owner), memory_(std::move(memory)), size_(size) {
    regions_.add(bytes());
  }
  ~HeapRegion() override { regions_.remove(bytes()); }
  View bytes() const override { return View(memory_.get(), size_); }
  RemoteRegion share() const override {
    return {owner_, reinterpret_cast<std::uint64_t>(memory_.get()), size_, {}};
  }

 private:
  RegionTable& regions_;
  Rank owner_;
  AlignedMemory memory_;
  std::size_t size_;
};

}  // namespace

Region allocate_on_heap(RegionTable& regions, Rank owner, std::size_t size) {
  TAXON_CHECK(size > 0, "an empty region");
  AlignedMemory memory = allocate_aligned(size);
  if (!memory) throw Error(ErrorKind::Transport, "out of memory for a region");
  return Region(std::make_unique<HeapRegion>(regions, owner, std::move(memory), size));
}

}  // namespace taxon::net
