#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"
#include "base/view.h"
#include "codec/wire.h"

namespace taxon::codec {

/// The largest values of each chunk of neighbours, with few bits for each: 16 of its place in the chunk, a
/// sign, and which step between the least and the largest magnitude that the chunk sends. What wires of
/// chunk_top_k and its relatives are made of.
class Chunks {
 public:
  struct Options {
    std::size_t chunk = 4096;  // values; at most 65536
    double density = 0.01;     // of each chunk, at least one value
    int bits = 2;              // of a value that travels: 2, 4, 8, or 32 for the value itself
    std::uint32_t letters = 0;
  };
  explicit Chunks(Options options) : options_(options) {}

  std::size_t wire_bytes(std::size_t count) const;
  std::size_t scratch_bytes() const;
  /// What values of chunks stand for: so many values of a gradient.
  struct Of {
    std::size_t chunks, values;
    Of(std::size_t all) : chunks(all), values(all) {}
    Of(std::size_t in_chunks, std::size_t of_values) : chunks(in_chunks), values(of_values) {}
  };
  struct Room {
    View scratch;  // of scratch_bytes()
    Isa path;
    std::size_t values;  // that the encoded ones stand for
  };
  /// The wire of the values, which stay. False, and a wire that says so, if one is not finite.
  bool encode(std::span<const float> values, View wire, const Room& room) const;

  /// A wire that somebody sent. Throws Error{Transport} unless it is one of so many values.
  class Reader {
   public:
    Reader(const Chunks& chunks, ConstView wire, Of of);
    bool finite() const { return finite_; }
    /// body(place, value), in the order of places.
    template <class Body>
    void for_each(Body&& body) const {
      std::size_t entry = 0;
      for (std::size_t c = 0, begin = 0; begin < count_; ++c, begin += chunks_.options_.chunk) {
        const std::size_t end = entry + chunks_.chosen(chunks_.size_of_chunk(count_, c));
        for (; entry < end; ++entry) body(begin + places_[entry], value(c, entry));
      }
    }

   private:
    float value(std::size_t chunk, std::size_t entry) const;
    const Chunks& chunks_;
    const std::size_t count_;
    bool finite_ = true;
    std::span<const float> scales_;  // the least and the largest magnitude of each chunk
    std::span<const std::uint16_t> places_;
    std::span<const std::uint8_t> codes_;
  };

 private:
  struct Sizes {
    std::size_t chunks, entries;
    std::size_t scales, places, codes;  // bytes
  };
  Sizes sizes(std::size_t count) const;
  std::size_t chosen(std::size_t count) const;
  std::size_t size_of_chunk(std::size_t count, std::size_t chunk) const;
  Head head(Of of) const;
  void encode_chunk(std::span<const float> values, std::span<const std::uint32_t> chosen, float* scales,
                    std::span<std::uint8_t> codes, std::size_t first) const;
  const Options options_;
};

}  // namespace taxon::codec
