#include "codec/wire.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace taxon::codec {
namespace {

std::uint64_t checksum_of(const Head& head, ConstView body) {
  const std::uint64_t seed = mix(mix(mix(head.codec) ^ head.flags) ^ head.count) ^ head.entries;
  return XXH3_64bits_withSeed(body.data(), body.size(), seed);
}

std::string name_of(std::uint32_t codec) {
  std::string name(4, '?');
  for (std::size_t i = 0; i < 4; ++i)
    if (char c = static_cast<char>(codec >> 8 * i); c >= ' ' && c <= '~') name[i] = c;
  return name;
}

}  // namespace

View body_of(View wire) { return wire.slice(sizeof(Head), wire.size() - sizeof(Head)); }

void seal(View wire, Head head) {
  View body = body_of(wire);
  if (head.flags & kNotFinite && !body.empty()) std::memset(body.data(), 0, body.size());
  head.checksum = checksum_of(head, body);
  std::memcpy(wire.data(), &head, sizeof(head));
}

Opened open(ConstView wire, std::size_t bytes, const Head& expected) {
  auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::Transport,
                fmt::format("a compressed gradient ({}) of {} bytes {}; was it damaged on its way? With "
                            "transport.checksum: payload the link itself is checked",
                            name_of(expected.codec), wire.size(), what));
  };
  Head head;
  if (wire.size() != bytes || bytes < sizeof(head)) refuse(fmt::format("should have {}", bytes));
  std::memcpy(&head, wire.data(), sizeof(head));
  if (head.codec != expected.codec) refuse("is one of codec " + name_of(head.codec));
  if (head.count != expected.count)
    refuse(fmt::format("is of {} values instead of {}", head.count, expected.count));
  if (head.entries != expected.entries)
    refuse(fmt::format("has {} entries instead of {}", head.entries, expected.entries));
  if (head.flags > kNotFinite) refuse(fmt::format("has unknown flags {:#x}", head.flags));
  ConstView body = wire.slice(sizeof(head), wire.size() - sizeof(head));
  if (head.checksum != checksum_of(head, body)) refuse("has a wrong checksum");
  return {body, (head.flags & kNotFinite) == 0};
}

void fill_not_finite(std::span<float> values) {
  std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
}

}  // namespace taxon::codec
