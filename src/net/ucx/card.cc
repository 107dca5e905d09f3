#include "net/ucx/card.h"

#include <cstring>

#include "base/error.h"
#include "net/wire/wire.h"

namespace taxon::net {
namespace {

void append(std::vector<std::byte>& out, const void* data, std::size_t size) {
  auto* begin = static_cast<const std::byte*>(data);
  out.insert(out.end(), begin, begin + size);
}

void take(ConstView& from, void* to, std::size_t size) {
  if (from.size() < size) throw Error(ErrorKind::Mismatch, "the address of a rank is cut short");
  if (size > 0) std::memcpy(to, from.data(), size);
  from = from.slice(size, from.size() - size);
}

}  // namespace

std::vector<std::byte> Card::pack() const {
  std::vector<std::byte> out;
  append(out, &kWireMagic, sizeof kWireMagic);
  append(out, &nonce, sizeof nonce);
  for (const auto* part : {&all, &network, &page}) {
    std::uint64_t size = part->size();
    append(out, &size, sizeof size);
    append(out, part->data(), part->size());
  }
  return out;
}

Card Card::unpack(ConstView bytes) {
  Card card;
  std::uint32_t magic = 0;
  take(bytes, &magic, sizeof magic);
  if (magic != kWireMagic)
    throw Error(ErrorKind::Mismatch, "the ranks run versions of Taxon with different wire formats");
  take(bytes, &card.nonce, sizeof card.nonce);
  for (auto* part : {&card.all, &card.network, &card.page}) {
    std::uint64_t size = 0;
    take(bytes, &size, sizeof size);
    if (size > bytes.size()) throw Error(ErrorKind::Mismatch, "the address of a rank is cut short");
    part->resize(size);
    take(bytes, part->data(), size);
  }
  return card;
}

}  // namespace taxon::net
