#include "codec/wire.h"

#include <fmt/format.h>
#define XXH_STATIC_LINKING_ONLY  // for the size of a state
#if defined(TAXON_XXHASH_DISPATCHES)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "base/error.h"

namespace taxon::codec {
namespace {

std::uint64_t seed_of(const Head& head) {
  return mix(mix(mix(head.codec) ^ head.flags) ^ head.count) ^ head.entries;
}

std::uint64_t checksum_of(const Head& head, ConstView body) {
  return XXH3_64bits_withSeed(body.data(), body.size(), seed_of(head));
}

XXH3_state_t* state_in(std::byte* memory) { return reinterpret_cast<XXH3_state_t*>(memory); }

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

Sealing::Sealing(View wire, const Head& head) : wire_(wire), head_(head) {
  static_assert(sizeof(state_) == sizeof(XXH3_state_t) && alignof(XXH3_state_t) <= 64);
  auto* state = new (state_) XXH3_state_t;
  XXH3_INITSTATE(state);
  XXH3_64bits_reset_withSeed(state, seed_of(head_));
}

void Sealing::reach(std::size_t bytes) {
  const View more = body_of(wire_).slice(reached_, bytes - reached_);
  XXH3_64bits_update(state_in(state_), more.data(), more.size());
  reached_ = bytes;
}

void Sealing::finish() {
  reach(body_of(wire_).size());
  head_.checksum = XXH3_64bits_digest(state_in(state_));
  std::memcpy(wire_.data(), &head_, sizeof(head_));
}

void Sealing::give_up() {
  head_.flags = kNotFinite;
  seal(wire_, head_);
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
