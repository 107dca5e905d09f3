#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/rows/rows.h"
#include "codec/scan.h"
#include "codec/select.h"
#include "codec/sketch.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

/// Dai et al., "A distributed SGD algorithm with global sketching for deep learning training acceleration"
/// (gs-SGD), arXiv 2108.06004: sketches are summed; everybody reads the same candidates from the sum; their
/// exact values are summed; the largest of these are the gradient.
class GlobalSketch final : public Codec {
 public:
  explicit GlobalSketch(const plan::CodecPlan& plan)
      : density_(plan.density), candidates_(plan.candidates), columns_(plan.columns), rows_(plan.rows) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Linear, DType::Float32}, {Algebra::Linear, DType::Float32}};
    return kRounds;
  }
  Settles settles() const override { return Settles::Delivered; }
  Price price() const override { return {4.0 * rows_, 4 + 8.0 * rows_, 4.0 * rows_ + 14, 8 + 4.0 * rows_}; }
  std::size_t wire_bytes(int round, const Extent& extent) const override {
    return (round == 0 ? shape(extent.count).size() : candidates(extent.count)) * sizeof(float);
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return Scratch::bytes(*this, extent.count);
  }

  bool encode(int round, std::span<float> values, View wire, Rest, const Use& use) const override {
    Scratch scratch(*this, values.size(), use.scratch);
    if (round == 0) {
      const bool finite = all_finite(values, use.path);
      auto table = as_span<float>(wire);
      if (finite)
        sketch(values, shape(values.size()), use.shared, table, use.path);
      else
        fill_not_finite(table);
      return finite;
    }
    auto exact = as_span<float>(wire);
    if (!*scratch.finite) {
      fill_not_finite(exact);
      return true;
    }
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] = values[scratch.candidates[i]];
    return true;
  }

  void absorb(int, std::span<const float> values, ConstView sum, const Use& use) const override {
    Scratch scratch(*this, values.size(), use.scratch);
    auto table = as_span<float>(sum);
    *scratch.finite = all_finite(table, use.path) ? 1 : 0;
    if (!*scratch.finite) return;
    estimate(table, shape(values.size()), use.shared, scratch.estimates, use.path);
    *scratch.finite = select_largest(scratch.estimates, scratch.candidates, scratch.select, use.path) ? 1 : 0;
  }

  void decode(ConstView wire, std::span<float> values, Into into, const Use& use) const override {
    Scratch scratch(*this, values.size(), use.scratch);
    auto exact = as_span<float>(wire);
    if (!choose(exact, scratch, use)) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    for (std::uint32_t i : scratch.chosen) values[scratch.candidates[i]] += exact[i];
  }

  void settle(ConstView wire, std::span<float> memory, const Use& use) const override {
    clear(wire, memory, use);
  }

  void clear(ConstView wire, std::span<float> values, const Use& use) const override {
    Scratch scratch(*this, values.size(), use.scratch);
    if (!choose(as_span<float>(wire), scratch, use)) return;
    for (std::uint32_t i : scratch.chosen) values[scratch.candidates[i]] = 0;
  }

 private:
  /// What is kept from one round to the next, and between.
  struct Scratch {
    std::uint64_t* finite;  // 1: the sketches' sum was
    std::span<float> estimates;
    std::span<std::uint32_t> candidates, chosen;
    View select;

    Scratch(const GlobalSketch& codec, std::size_t count, View memory) {
      auto take = [&](std::size_t bytes) {
        View taken = memory.slice(0, bytes);
        memory = memory.slice(padded(bytes), memory.size() - padded(bytes));
        return taken;
      };
      finite = as_span<std::uint64_t>(take(sizeof(std::uint64_t))).data();
      estimates = as_span<float>(take(count * sizeof(float)));
      candidates = as_span<std::uint32_t>(take(codec.candidates(count) * sizeof(std::uint32_t)));
      chosen = as_span<std::uint32_t>(take(codec.chosen(count) * sizeof(std::uint32_t)));
      select = memory;
    }
    static std::size_t bytes(const GlobalSketch& codec, std::size_t count) {
      const std::size_t candidates = codec.candidates(count), chosen = codec.chosen(count);
      return padded(sizeof(std::uint64_t)) + padded(count * sizeof(float)) +
             padded(candidates * sizeof(std::uint32_t)) + padded(chosen * sizeof(std::uint32_t)) +
             std::max(select_scratch_bytes(count, candidates), select_scratch_bytes(candidates, chosen));
    }
  };

  std::size_t chosen(std::size_t count) const { return entries_of(count, density_); }
  std::size_t candidates(std::size_t count) const {
    return std::max(chosen(count), entries_of(count, std::min(1.0, density_ * candidates_)));
  }
  SketchShape shape(std::size_t count) const {
    const auto columns = static_cast<std::size_t>(std::ceil(columns_ * static_cast<double>(count)));
    constexpr std::size_t kLanes = SketchShape::kLanes;
    return {rows_, std::max<std::size_t>(1, (columns + kLanes - 1) / kLanes) * kLanes};
  }
  bool choose(std::span<const float> exact, Scratch& scratch, const Use& use) const {
    return *scratch.finite && select_largest(exact, scratch.chosen, scratch.select, use.path);
  }

  const double density_, candidates_, columns_;
  const int rows_;
};

}  // namespace

CodecRow count_sketch() {
  return {"count_sketch",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<GlobalSketch>(plan);
          },
          true, true};
}

}  // namespace taxon::codec
