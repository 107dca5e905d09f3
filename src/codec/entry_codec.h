#pragma once

#include "codec/chosen.h"
#include "codec/codec.h"
#include "codec/entries.h"

namespace taxon::codec {

/// What codecs share whose wire is k entries of the values, places and exact values: a new one says which
/// entries travel, in choose(). With algebra Opaque everybody decodes all members' wires.
class EntryCodec : public Codec {
 public:
  /// `letters`: four of its own, by which a wire of another codec is told.
  EntryCodec(const ChosenOptions& options, std::uint32_t letters, Algebra algebra = Algebra::Opaque)
      : chosen_(options), letters_(letters), round_{{algebra}} {}

  std::span<const Round> rounds() const final { return round_; }
  ElementCost cost() const override { return {2, 5, chosen_.share(), 4 + 8 * chosen_.share()}; }
  std::size_t wire_bytes(int, const Extent& extent) const final {
    return entries_bytes(chosen_.of(extent.count));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return choice_scratch_bytes(extent.count, chosen_.of(extent.count));
  }
  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const final;
  void decode(ConstView wire, std::span<float> values, Into into, const CodecContext&) const final;
  void clear(ConstView wire, std::span<float> values, const CodecContext&) const final;

 protected:
  /// Fills `places`, ascending, with those of the values that travel. False: a value is not finite.
  virtual bool choose(std::span<const float> values, std::span<std::uint32_t> places,
                      const CodecContext& context) const = 0;
  /// Bytes of scratch that choose() needs for so many entries of so many values.
  virtual std::size_t choice_scratch_bytes(std::size_t count, std::size_t entries) const = 0;

  std::size_t entries_of_range(std::size_t count) const { return chosen_.of(count); }
  /// What wires of a range begin with.
  Head head(std::size_t count) const { return {letters_, 0, count, chosen_.of(count)}; }
  /// Seals a wire whose entries are filled in.
  void finish(View wire, std::size_t count, bool finite) const;

 private:
  const Chosen chosen_;
  const std::uint32_t letters_;
  const Round round_[1];
};

}  // namespace taxon::codec
