#include "codec/chunks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "codec/chosen.h"
#include "codec/scan.h"
#include "codec/select.h"

namespace taxon::codec {
namespace {

constexpr int kWhole = 32;  // bits of a value that travels as it is

/// Packed from the low bits of each byte on.
void put(std::span<std::uint8_t> codes, std::size_t entry, int bits, std::uint32_t code) {
  const std::size_t bit = entry * static_cast<std::size_t>(bits);
  codes[bit / 8] = static_cast<std::uint8_t>(codes[bit / 8] | code << bit % 8);
}
std::uint32_t get(std::span<const std::uint8_t> codes, std::size_t entry, int bits) {
  const std::size_t bit = entry * static_cast<std::size_t>(bits);
  return static_cast<std::uint32_t>(codes[bit / 8]) >> bit % 8 & ((1U << bits) - 1);
}

std::uint32_t steps_of(int bits) { return 1U << (bits - 1); }

}  // namespace

std::size_t Chunks::chosen(std::size_t count) const { return entries_of(count, options_.density); }

std::size_t Chunks::size_of_chunk(std::size_t count, std::size_t chunk) const {
  return std::min(options_.chunk, count - chunk * options_.chunk);
}

Chunks::Sizes Chunks::sizes(std::size_t count) const {
  const std::size_t whole = count / options_.chunk, rest = count % options_.chunk;
  Sizes sizes{};
  sizes.chunks = whole + (rest > 0);
  sizes.entries = whole * chosen(options_.chunk) + chosen(rest);
  sizes.scales = options_.bits == kWhole ? 0 : round_to_line(2 * sizes.chunks * sizeof(float));
  sizes.places = round_to_line(sizes.entries * sizeof(std::uint16_t));
  sizes.codes = round_to_line((sizes.entries * static_cast<std::size_t>(options_.bits) + 7) / 8);
  return sizes;
}

Head Chunks::head(Of of) const { return {options_.letters, 0, of.values, sizes(of.chunks).entries}; }

std::size_t Chunks::wire_bytes(std::size_t count) const {
  const Sizes all = sizes(count);
  return sizeof(Head) + all.scales + all.places + all.codes;
}

std::size_t Chunks::scratch_bytes() const {
  const std::size_t k = chosen(options_.chunk);
  return round_to_line(k * sizeof(std::uint32_t)) + select_scratch_bytes(options_.chunk, k);
}

bool Chunks::encode(std::span<const float> values, View wire, const Room& room) const {
  const Sizes all = sizes(values.size());
  View body = body_of(wire);
  if (!body.empty()) std::memset(body.data(), 0, body.size());
  Head sealed = head({values.size(), room.values});
  if (!all_finite(values, room.path)) {
    sealed.flags = kNotFinite;
    seal(wire, sealed);
    return false;
  }
  auto scales = as_span<float>(body.slice(0, all.scales));
  auto places = as_span<std::uint16_t>(body.slice(all.scales, all.places));
  auto codes = as_span<std::uint8_t>(body.slice(all.scales + all.places, all.codes));
  const std::size_t most = round_to_line(chosen(options_.chunk) * sizeof(std::uint32_t));
  const View selecting = room.scratch.slice(most, room.scratch.size() - most);
  std::size_t entry = 0;
  for (std::size_t c = 0; c < all.chunks; ++c) {
    const auto chunk = values.subspan(c * options_.chunk, size_of_chunk(values.size(), c));
    auto of_chunk = as_span<std::uint32_t>(room.scratch.slice(0, most)).first(chosen(chunk.size()));
    select_largest(chunk, of_chunk, selecting, room.path);
    for (std::size_t i = 0; i < of_chunk.size(); ++i)
      places[entry + i] = static_cast<std::uint16_t>(of_chunk[i]);
    encode_chunk(chunk, of_chunk, scales.empty() ? nullptr : &scales[2 * c], codes, entry);
    entry += of_chunk.size();
  }
  seal(wire, sealed);
  return true;
}

void Chunks::encode_chunk(std::span<const float> values, std::span<const std::uint32_t> chosen, float* scales,
                          std::span<std::uint8_t> codes, std::size_t first) const {
  if (options_.bits == kWhole) {
    for (std::size_t i = 0; i < chosen.size(); ++i)
      std::memcpy(&codes[(first + i) * sizeof(float)], &values[chosen[i]], sizeof(float));
    return;
  }
  float least = std::numeric_limits<float>::max(), largest = 0;
  for (std::uint32_t place : chosen) {
    least = std::min(least, std::abs(values[place]));
    largest = std::max(largest, std::abs(values[place]));
  }
  scales[0] = least;
  scales[1] = largest;
  const std::uint32_t steps = steps_of(options_.bits);
  // In float64, where no difference is so small that its inverse were infinite.
  const double per_step = largest > least ? steps / (static_cast<double>(largest) - least) : 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const float value = values[chosen[i]];
    const double step = std::min((std::abs(value) - static_cast<double>(least)) * per_step, steps - 1.0);
    const std::uint32_t sign = std::signbit(value) ? steps : 0;
    put(codes, first + i, options_.bits, static_cast<std::uint32_t>(step) | sign);
  }
}

Chunks::Reader::Reader(const Chunks& chunks, ConstView wire, Of of) : chunks_(chunks), count_(of.chunks) {
  const std::size_t count = of.chunks;
  const Sizes all = chunks.sizes(count);
  const Opened opened = open(wire, chunks.wire_bytes(count), chunks.head(of));
  finite_ = opened.finite;
  scales_ = as_span<float>(opened.body.slice(0, all.scales));
  places_ = as_span<std::uint16_t>(opened.body.slice(all.scales, all.places));
  codes_ = as_span<std::uint8_t>(opened.body.slice(all.scales + all.places, all.codes));
  bool inside = true;
  std::size_t entry = 0;
  for (std::size_t c = 0; finite_ && c < all.chunks; ++c) {
    const std::size_t size = chunks.size_of_chunk(count, c), k = chunks.chosen(size);
    for (std::size_t i = 0; i < k; ++i)
      inside &= places_[entry + i] < size && (i == 0 || places_[entry + i - 1] < places_[entry + i]);
    entry += k;
  }
  if (!inside)
    throw Error(ErrorKind::Transport, "a compressed gradient names places that are not there, or one twice");
}

float Chunks::Reader::value(std::size_t chunk, std::size_t entry) const {
  const int bits = chunks_.options_.bits;
  if (bits == kWhole) {
    float value;
    std::memcpy(&value, &codes_[entry * sizeof(float)], sizeof(float));
    return value;
  }
  const std::uint32_t code = get(codes_, entry, bits), steps = steps_of(bits);
  const float least = scales_[2 * chunk], largest = scales_[2 * chunk + 1];
  // The middle of the step.
  const float magnitude =
      least + (largest - least) * (static_cast<float>(code % steps) + 0.5F) / static_cast<float>(steps);
  return code >= steps ? -magnitude : magnitude;
}

}  // namespace taxon::codec
