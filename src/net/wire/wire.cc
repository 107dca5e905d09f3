#include "net/wire/wire.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstddef>
#include <cstring>

namespace taxon::net {
namespace {

std::uint64_t sum_of(const WireHeader& header) {
  return XXH3_64bits(&header, offsetof(WireHeader, header_checksum));
}

}  // namespace

std::uint64_t checksum_of(ConstView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void seal(WireHeader& header) { header.header_checksum = sum_of(header); }

bool is_of_job(ConstView bytes, std::uint32_t epoch) {
  std::uint32_t head[2];
  static_assert(offsetof(WireHeader, magic) == 0 && offsetof(WireHeader, epoch) == sizeof head[0]);
  if (bytes.size() < sizeof head) return false;
  std::memcpy(head, bytes.data(), sizeof head);
  return head[0] == kWireMagic && head[1] == epoch;
}

std::string header_fault(ConstView bytes) {
  if (bytes.size() != sizeof(WireHeader))
    return fmt::format("a header of {} bytes instead of {}", bytes.size(), sizeof(WireHeader));
  WireHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if ((header.magic ^ kWireMagic) >> 8 != 0) return "bytes that are not Taxon's";
  if (header.magic != kWireMagic)
    return fmt::format("wire format {} instead of {}: the ranks run different versions of Taxon",
                       header.magic & 0xff, kWireVersion);
  if (header.header_checksum != sum_of(header)) return "a damaged header";
  return {};
}

}  // namespace taxon::net
