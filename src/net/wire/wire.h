#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/view.h"
#include "net/tag.h"

namespace taxon::net {

/// Format version of the wire, checked in every header. docs/wire_format.md.
constexpr std::uint32_t kWireVersion = 2;
constexpr std::uint32_t kWireMagic = 0x4e585400 | kWireVersion;  // "\2TXN" in memory

enum class WireKind : std::uint8_t { Message, Put, Confirmation };

/// WireHeader::flags.
constexpr std::uint16_t kPayloadChecksum = 1;  // payload_checksum is set
constexpr std::uint16_t kConfirm = 2;          // the receiver says when this fragment has come

/// In front of every fragment of a message or put. Little-endian, no padding.
struct WireHeader {
  std::uint32_t magic = kWireMagic;
  std::uint32_t epoch = 0;  // of the job: fences messages of an earlier life
  Tag tag;
  std::int32_t source = 0;
  WireKind kind = WireKind::Message;
  std::uint8_t type = 0;  // DType
  std::uint16_t flags = 0;
  std::uint32_t signal = 0;            // put
  std::uint64_t order = 0;             // counts the messages and puts from this source to this receiver
  std::uint64_t size = 0;              // of the whole payload
  std::uint64_t offset = 0;            // of this fragment
  std::uint64_t address = 0;           // put: where the payload begins, at the receiver
  std::uint64_t value = 0;             // put: what the signal is raised to
  std::uint64_t payload_checksum = 0;  // of this fragment
  std::uint64_t header_checksum = 0;   // of everything above
};
static_assert(sizeof(WireHeader) == 96 && std::has_unique_object_representations_v<WireHeader>);
static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

/// XXH3, 64 bits.
std::uint64_t checksum_of(ConstView bytes);
/// Sets the header's checksum. Call last.
void seal(WireHeader& header);
/// True if the bytes begin like a header of this version and of this life of the job: what does not is a
/// stranger's, or an earlier life's, and nothing else in it is looked at.
bool is_of_job(ConstView bytes, std::uint32_t epoch);
/// Empty if the bytes are a whole header of this version; otherwise what is wrong with them.
std::string header_fault(ConstView bytes);

}  // namespace taxon::net
