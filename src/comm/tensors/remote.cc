#include "comm/tensors/remote.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

namespace taxon::comm {
namespace {

void append(std::vector<std::byte>& bytes, const void* data, std::size_t size) {
  const auto* begin = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), begin, begin + size);
}

[[noreturn]] void refuse(const RemoteArena& arena, const RemoteBlock& block, const std::string& why) {
  throw Error(ErrorKind::Mismatch,
              fmt::format("block {} of rank {}'s tensor arena, [{}, {}): {}", block.index,
                          arena.owner().value(), block.offset, block.offset + block.size, why),
              ErrorContext{arena.owner(), "tensor channel", {}});
}

struct PackedHead {
  std::uint64_t payload = 0, control = 0;  // bytes of the packed regions
  std::uint64_t blocks = 0;
};

}  // namespace

std::vector<std::byte> RemoteArena::pack() const {
  const auto first = payload.pack(), second = control.pack();
  const PackedHead head{first.size(), second.size(), blocks};
  std::vector<std::byte> bytes;
  append(bytes, &head, sizeof head);
  append(bytes, first.data(), first.size());
  append(bytes, second.data(), second.size());
  return bytes;
}

RemoteArena RemoteArena::unpack(ConstView bytes) {
  PackedHead head;
  if (bytes.size() < sizeof head) throw Error(ErrorKind::Mismatch, "a packed tensor arena is cut short");
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::size_t rest = bytes.size() - sizeof head;
  if (head.payload > rest || head.control != rest - head.payload)
    throw Error(ErrorKind::Mismatch, "a packed tensor arena is cut short");
  RemoteArena arena{net::RemoteRegion::unpack(bytes.slice(sizeof head, head.payload)),
                    net::RemoteRegion::unpack(bytes.slice(sizeof head + head.payload, head.control)),
                    static_cast<std::uint32_t>(head.blocks)};
  if (head.blocks > arena.control.size / sizeof(std::uint64_t))
    throw Error(ErrorKind::Mismatch, "a packed tensor arena has more blocks than words for them");
  return arena;
}

void RemoteArena::check_bounds(const RemoteBlock& block) const {
  if (block.offset > payload.size || block.size > payload.size - block.offset || block.index >= blocks)
    refuse(*this, block, fmt::format("it lies outside of the arena, which has {} bytes", payload.size));
}

void RemoteArena::check_bounds(const RemoteBlock& block, std::size_t offset, std::size_t size) const {
  check_bounds(block);
  if (offset > block.size || size > block.size - offset)
    refuse(*this, block, fmt::format("{} bytes at {} lie outside of it", size, offset));
}

MappedArena::MappedArena(net::Transport& transport, const RemoteArena& arena) : arena_(arena) {
  payload_ = transport.map(arena.payload);
  control_ = transport.map(arena.control);
  mapped_ = payload_.size() == arena.payload.size && control_.size() == arena.control.size &&
            !payload_.empty() && !control_.empty() && !control_.is_phantom();
}

bool MappedArena::still_good(const RemoteBlock& block) const {
  // As a reader of a sequence lock: the block's bytes first, then its generation.
  std::atomic_thread_fence(std::memory_order_acquire);
  auto* words = reinterpret_cast<std::uint64_t*>(control_.data());
  return std::atomic_ref(words[block.index]).load(std::memory_order_acquire) == block.generation;
}

View MappedArena::at(const RemoteBlock& block) const {
  TAXON_CHECK(mapped_, "an arena that is not mapped");
  arena_.check_bounds(block);
  if (!still_good(block)) refuse(arena_, block, "its owner has given it up");
  return payload_.slice(block.offset, block.size);
}

net::PutOp write_block(net::Transport& transport, const RemoteArena& arena, const BlockPlace& place,
                       ConstView from) {
  arena.check_bounds(place.block, place.offset, from.size());
  return net::PutOp(transport, from, &arena.payload, place.block.offset + place.offset, place.signal,
                    place.value);
}

}  // namespace taxon::comm
