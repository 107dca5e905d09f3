#include "exchange/channel/rma_window.h"

#include <fmt/format.h>

#include <cstring>

#include "comm/told.h"

namespace taxon::exchange {

WindowDescriptor describe_window(const tensor::Arena& arena, Range range, std::uint32_t signal) {
  if (!arena.region() || range.size == 0) return {};
  const auto packed = arena.region().share().pack();
  if (packed.size() > WindowDescriptor::kRoom) return {};
  WindowDescriptor told;
  told.offset = range.begin * size_of(arena.type());
  told.size = range.size * size_of(arena.type());
  told.signal = signal;
  told.packed = static_cast<std::uint32_t>(packed.size());
  std::memcpy(told.region.data(), packed.data(), packed.size());
  return told;
}

RemoteWindow::RemoteWindow(const WindowDescriptor& told, Rank owner, std::size_t size,
                           std::uint32_t signals) {
  if (told.packed == 0) return;
  if (told.packed > WindowDescriptor::kRoom || told.signal >= signals)
    throw comm::told_wrong(owner, "place of values",
                           fmt::format("a region in {} bytes of {}, signal {} of {}", told.packed,
                                       WindowDescriptor::kRoom, told.signal, signals));
  net::RemoteRegion region = net::RemoteRegion::unpack(ConstView(told.region.data(), told.packed));
  if (region.owner != owner || told.size != size || told.offset > region.size ||
      size > region.size - told.offset)
    throw Error(
        ErrorKind::Mismatch,
        fmt::format("rank {} wants {} bytes written to {} bytes at {} of a region of {} bytes of rank "
                    "{}. Every rank must run the same plan and the same model.",
                    owner.value(), size, told.size, told.offset, region.size, region.owner.value()),
        ErrorContext{owner, "place of values", {}});
  region_ = std::move(region);
  offset_ = told.offset;
  size_ = size;
  signal_ = told.signal;
}

View RemoteWindow::map(net::Transport& transport) const {
  const View region = transport.map(region_);
  return region.size() == region_.size ? region.slice(offset_, size_) : View();
}

}  // namespace taxon::exchange
