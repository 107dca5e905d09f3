#include "report/tensorboard.h"

#include <fmt/format.h>

#include <bit>
#include <boost/crc.hpp>

namespace taxon::report {
namespace {

// Protocol buffers' wire format: a key (field number and wire type), then the value.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3 | type);
}

template <class Word>
void put_little_endian(std::string& out, Word word) {
  for (std::size_t i = 0; i < sizeof word; ++i) out.push_back(static_cast<char>(word >> (8 * i)));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

// message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
std::string begin_event(double wall_time) {
  std::string event;
  put_key(event, 1, kFixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(wall_time));
  return event;
}

std::string frame(std::string_view data) {
  std::string out;
  put_little_endian(out, static_cast<std::uint64_t>(data.size()));
  put_little_endian(out, masked_crc32c(std::string(out)));
  out.append(data);
  put_little_endian(out, masked_crc32c(data));
  return out;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(data.data(), data.size());
  std::uint32_t value = crc.checksum();
  return ((value >> 15) | (value << 17)) + 0xa282ead8U;
}

std::string encode_file_version(double wall_time) {
  std::string event = begin_event(wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return frame(event);
}

std::string encode_scalars(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars) {
  // message Summary { repeated Value value = 1; message Value { string tag = 1; float simple_value = 2; } }
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, kFixed32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, 1, value);
  }
  std::string event = begin_event(wall_time);
  put_key(event, 2, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, summary);
  return frame(event);
}

std::string event_file_name(double wall_time, std::string_view host) {
  return fmt::format("events.out.tfevents.{:.0f}.{}", wall_time, host);
}

}  // namespace taxon::report
