#include "tensor/arena.h"

#include <new>

namespace taxon::tensor {
namespace {

std::size_t round_up(std::size_t size, std::size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

}  // namespace

Range ArenaLayout::add(std::string name, std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (std::int64_t extent : shape) {
    TAXON_CHECK(extent >= 0, name, " has the extent ", extent);
    count *= static_cast<std::size_t>(extent);
  }
  Range range{size_, count};
  slots_.push_back({std::move(name), std::move(shape), range});
  size_ = round_up(size_ + count, kAlignment / size_of(type_));
  return range;
}

Arena::Arena(net::Transport& transport, DType type, std::size_t size) : type_(type), size_(size) {
  if (size == 0) return;
  region_ = transport.allocate(size * size_of(type));
  bytes_ = region_.bytes().slice(0, size * size_of(type));
}

Arena::Arena(DType type, std::size_t size, View beside) : type_(type), size_(size) {
  if (size == 0) return;
  std::size_t bytes = size * size_of(type);
  if (beside.is_phantom()) {
    bytes_ = View::phantom(bytes);
    return;
  }
  memory_ = allocate_aligned(bytes);
  if (!memory_) throw std::bad_alloc();
  bytes_ = View(memory_.get(), bytes);
}

Arena Arena::over(DType type, View bytes) {
  Arena arena;
  arena.type_ = type;
  arena.size_ = bytes.size() / size_of(type);
  arena.bytes_ = bytes;
  return arena;
}

}  // namespace taxon::tensor
