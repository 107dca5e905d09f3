#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "codec/codec.h"

namespace taxon::codec::test {

/// Bytes aligned as wires and scratch are.
class Bytes {
 public:
  explicit Bytes(std::size_t size, std::uint8_t value = 0) : size_(size), blocks_(size / 64 + 2) {
    std::memset(blocks_.data(), value, blocks_.size() * 64);
  }
  View view() { return {reinterpret_cast<std::byte*>(blocks_.data()), size_}; }
  /// The byte behind the last one.
  std::uint8_t behind() const { return reinterpret_cast<const std::uint8_t*>(blocks_.data())[size_]; }

 private:
  struct alignas(64) Block {
    std::uint8_t bytes[64];
  };
  std::size_t size_;
  std::vector<Block> blocks_;
};

/// Values of many magnitudes, as gradients are, or whole numbers, whose sums are exact.
inline std::vector<float> gradient(std::size_t count, std::uint64_t seed) {
  Rng rng(seed, "gradient");
  std::vector<float> values(count);
  for (float& value : values) {
    const double magnitude = std::exp(6 * rng.uniform() * rng.uniform() - 3);
    value = static_cast<float>((2 * rng.uniform() - 1) * magnitude);
  }
  return values;
}
inline std::vector<float> whole_numbers(std::size_t count, std::uint64_t seed) {
  Rng rng(seed, "whole numbers");
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.below(2001)) - 1000;
  return values;
}

/// Options under which a codec has something to do on few values; a row takes those that it has.
inline plan::Options options_of() { return {{"density", 0.05}, {"columns", 0.2}, {"threshold", 0.7}}; }

/// Two matrices and a vector, the last row of either matrix maybe cut short, that fill a range.
inline std::vector<Piece> tensors_of(std::size_t count) {
  const std::size_t half = count / 2, rest = (count - half) / 2;
  std::vector<Piece> pieces;
  for (Piece piece :
       {Piece{{0, half}, 20}, Piece{{half, rest}, 0}, Piece{{half + rest, count - half - rest}, 7}})
    if (piece.range.size > 0) pieces.push_back(piece);
  return pieces;
}

/// A codec with memory for one range.
struct Coder {
  explicit Coder(const CodecRow& row, std::size_t count, Isa path = best_isa())
      : Coder(row, options_of(), count, path) {}
  Coder(const CodecRow& row, const plan::Options& options, std::size_t count, Isa path = best_isa())
      : Coder(row, options, count == 0 ? std::vector<Piece>{} : tensors_of(count), path) {}
  /// Of tensors without gaps.
  Coder(const CodecRow& row, const plan::Options& options, std::vector<Piece> tensors, Isa path = best_isa())
      : codec(row.make(options)),
        count(tensors.empty() ? 0 : tensors.back().range.end()),
        pieces(std::move(tensors)),
        lasting(codec->lasts() ? count : 0),
        scratch(codec->scratch_bytes(extent())) {
    context = {scratch.view(), 77, 78, path, pieces, lasting};
    for (std::size_t r = 0; r < codec->rounds().size(); ++r)
      wires.emplace_back(codec->wire_bytes(static_cast<int>(r), extent()), std::uint8_t{0xAA});
  }
  Coder(Coder&&) = default;
  Extent extent() const { return {count, pieces}; }
  /// All rounds of a group of one.
  std::vector<float> round_trip(std::vector<float>& values, Residual rest) {
    for (std::size_t r = 0; r < wires.size(); ++r) {
      if (r > 0) codec->absorb(static_cast<int>(r) - 1, values, wires[r - 1].view(), context);
      codec->encode(static_cast<int>(r), values, wires[r].view(), rest, context);
    }
    std::vector<float> decoded(count, 123.0F);
    codec->decode(wires.back().view(), decoded, Into::Assign, context);
    return decoded;
  }
  ConstView last() { return wires.back().view(); }

  std::unique_ptr<Codec> codec;
  std::size_t count;
  std::vector<Piece> pieces;
  std::vector<float> lasting;
  Bytes scratch;
  std::vector<Bytes> wires;
  CodecContext context;
};

inline std::vector<std::uint8_t> bytes_of(ConstView view) {
  auto* data = reinterpret_cast<const std::uint8_t*>(view.data());
  return {data, data + view.size()};
}
template <class T>
std::vector<std::uint32_t> bits_of(const std::vector<T>& values) {
  std::vector<std::uint32_t> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size() * sizeof(T));
  return bits;
}

inline std::string row_name(const testing::TestParamInfo<CodecRow>& info) {
  return std::string(info.param.name);
}

}  // namespace taxon::codec::test
