#include <algorithm>

#include "codec/codec.h"
#include "codec/low_rank.h"
#include "codec/option_fields.h"
#include "codec/scan.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

struct PowerOptions {
  int rank = 2;
};
template <plan::Like<PowerOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "rank", .sentence = "Of a tensor's matrix.", .min = 1, .max = 64}, o.rank);
}

/// A tensor's place in the values, and in the wires: of a matrix both factors, of others their values.
struct Part {
  Range values;
  MatrixShape shape;
  std::size_t rank = 0;                   // 0: travels as it is
  std::size_t left_at = 0, right_at = 0;  // floats of either round's wire before it
  std::size_t left() const { return rank == 0 ? values.size : rank * shape.rows(); }
  std::size_t right() const { return rank * shape.columns; }
};

/// Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed
/// optimization", NeurIPS 2019: a step of the power method, whose right factors begin where those of the step
/// before ended. Left factors are summed and orthonormalised, right ones are what the sum has of them.
class PowerSgd final : public Codec {
 public:
  explicit PowerSgd(int rank) : rank_(static_cast<std::size_t>(rank)) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Linear, DType::Float32}, {Algebra::Linear, DType::Float32}};
    return kRounds;
  }
  ResidualTiming residual_timing() const override { return ResidualTiming::Delivered; }
  bool keeps_zeros() const override { return false; }
  bool lasts() const override { return true; }
  ElementCost cost() const override {
    const auto rank = static_cast<double>(rank_);
    return {2 * rank, 4, 2 * rank, 8};
  }
  std::size_t wire_bytes(int round, const Extent& extent) const override {
    const Sizes sizes = sizes_of(extent);
    return (round == 0 ? sizes.left : sizes.right) * sizeof(float);
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    const Sizes sizes = sizes_of(extent);
    return round_to_line(sizeof(std::uint64_t)) + round_to_line(sizes.left * sizeof(float)) +
           round_to_line(sizes.right * sizeof(float));
  }

  bool encode(int round, std::span<float> values, View wire, Residual,
              const CodecContext& context) const override {
    const Extent extent{values.size(), context.pieces};
    auto sent = as_span<float>(wire);
    Scratch scratch(sizes_of(extent), context.scratch);
    const bool finite = round == 0 ? all_finite(values, context.isa) : *scratch.finite != 0;
    if (!finite) {
      fill_not_finite(sent);
      return round != 0;
    }
    if (round == 0) {
      fill_left(values, sent, context);
    } else {
      fill_right(values, scratch, context);
      std::copy(scratch.right.begin(), scratch.right.end(), sent.begin());
    }
    return true;
  }

  void absorb(int, std::span<const float> values, ConstView sum, const CodecContext& context) const override {
    const Extent extent{values.size(), context.pieces};
    Scratch scratch(sizes_of(extent), context.scratch);
    auto left = as_span<float>(sum);
    *scratch.finite = all_finite(left, context.isa) ? 1 : 0;
    if (!*scratch.finite) return;
    std::copy(left.begin(), left.end(), scratch.left.begin());
    for_parts(extent, [&](const Part& part) {
      if (part.rank > 0)
        orthonormalise(scratch.left.subspan(part.left_at, part.left()), part.shape.rows(), context.isa);
    });
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    const Extent extent{values.size(), context.pieces};
    Scratch scratch(sizes_of(extent), context.scratch);
    auto right = as_span<float>(wire);
    if (!*scratch.finite || !all_finite(right, context.isa)) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    add_sum(scratch.left, right, Expand::Add, values, context);
    for_parts(extent, [&](const Part& part) {
      if (part.rank == 0) return;
      auto next = context.lasting.subspan(part.values.begin, part.right());
      std::copy_n(right.data() + part.right_at, part.right(), next.data());
      normalise(next, part.shape.columns, context.isa);
    });
  }

  void settle(ConstView wire, std::span<float> memory, const CodecContext& context) const override {
    Scratch scratch(sizes_of({memory.size(), context.pieces}), context.scratch);
    if (!*scratch.finite || !all_finite(as_span<float>(wire), context.isa)) return;
    for_parts({memory.size(), context.pieces}, [&](const Part& part) {
      auto kept = memory.subspan(part.values.begin, part.values.size);
      if (part.rank == 0)
        std::fill(kept.begin(), kept.end(), 0.0F);
      else
        expand(factors(scratch.left, scratch.right, part), part.shape, Expand::Subtract, kept, context.isa);
    });
  }

 private:
  struct Sizes {
    std::size_t left = 0, right = 0;  // floats of either round's wire
  };
  /// What is kept from round to round.
  struct Scratch {
    std::uint64_t* finite;   // 1: the left factors' sum was
    std::span<float> left;   // that sum, orthonormal; values that travel as they are
    std::span<float> right;  // this member's own
    Scratch(Sizes sizes, View memory) {
      std::size_t at = 0;
      auto take = [&](std::size_t bytes) {
        at += round_to_line(bytes);
        return memory.slice(at - round_to_line(bytes), bytes);
      };
      finite = as_span<std::uint64_t>(take(sizeof(std::uint64_t))).data();
      left = as_span<float>(take(sizes.left * sizeof(float)));
      right = as_span<float>(take(sizes.right * sizeof(float)));
    }
  };

  /// Calls body(part) for every tensor. Factors must halve what travels, or it travels as it is.
  template <class Body>
  void for_parts(const Extent& extent, Body&& body) const {
    const Piece whole{{0, extent.count}, 0};
    Part part;
    for (const Piece& piece : extent.pieces.empty() ? std::span(&whole, 1) : extent.pieces) {
      part.values = piece.range;
      part.shape = {piece.range.size, std::max<std::size_t>(1, piece.columns)};
      const std::size_t rank = std::min({rank_, part.shape.rows(), part.shape.columns});
      const bool low = 2 * rank * (part.shape.rows() + part.shape.columns) <= piece.range.size;
      part.rank = piece.columns > 0 && low ? rank : 0;
      body(part);
      part.left_at += part.left();
      part.right_at += part.right();
    }
  }
  Sizes sizes_of(const Extent& extent) const {
    Sizes sizes;
    for_parts(extent, [&sizes](const Part& part) {
      sizes.left += part.left();
      sizes.right += part.right();
    });
    return sizes;
  }
  static LowRankFactors factors(std::span<const float> left, std::span<const float> right, const Part& part) {
    return {left.subspan(part.left_at, part.left()), right.subspan(part.right_at, part.right())};
  }

  void fill_left(std::span<const float> values, std::span<float> sent, const CodecContext& context) const {
    for_parts({values.size(), context.pieces}, [&](const Part& part) {
      auto tensor = values.subspan(part.values.begin, part.values.size);
      auto left = sent.subspan(part.left_at, part.left());
      if (part.rank == 0) {
        std::copy(tensor.begin(), tensor.end(), left.begin());
        return;
      }
      auto right = context.lasting.subspan(part.values.begin, part.right());
      draw_where_zero(right, part.shape.columns, mix(context.shared + part.values.begin));
      multiply(tensor, part.shape, right, left, context.isa);
    });
  }
  void fill_right(std::span<const float> values, Scratch& scratch, const CodecContext& context) const {
    for_parts({values.size(), context.pieces}, [&](const Part& part) {
      if (part.rank > 0)
        multiply_transposed(values.subspan(part.values.begin, part.values.size), part.shape,
                            scratch.left.subspan(part.left_at, part.left()),
                            scratch.right.subspan(part.right_at, part.right()), context.isa);
    });
  }
  void add_sum(std::span<const float> left, std::span<const float> right, Expand how, std::span<float> values,
               const CodecContext& context) const {
    for_parts({values.size(), context.pieces}, [&](const Part& part) {
      auto tensor = values.subspan(part.values.begin, part.values.size);
      if (part.rank == 0)
        add(left.subspan(part.left_at, part.left()), tensor, context.isa);
      else
        expand(factors(left, right, part), part.shape, how, tensor, context.isa);
    });
  }
  /// Signs in place of vectors of zeros: at first, and after gradients that had none of a direction.
  static void draw_where_zero(std::span<float> vectors, std::size_t length, std::uint64_t key) {
    for (std::size_t first = 0; first < vectors.size(); first += length) {
      auto vector = vectors.subspan(first, length);
      if (std::any_of(vector.begin(), vector.end(), [](float value) { return value != 0; })) continue;
      for (std::size_t i = 0; i < length; ++i) vector[i] = mix(key + first + i) & 1 ? 1.0F : -1.0F;
    }
  }

  const std::size_t rank_;
};

}  // namespace

CodecRow power_sgd() {
  return codec_row<PowerOptions>(
      {.name = "power_sgd",
       .sentence = "both factors of each matrix, of `rank` r; other tensors as they are",
       .bytes = "4 r (rows + columns) for a matrix",
       .source = "Vogels et al., NeurIPS 2019",
       .biased = true,
       .largest_error = [](float,
                           float scale) { return 20 * scale; }},  // exactly: tests/codec/low_rank_test.cc
      [](const PowerOptions& o) -> std::unique_ptr<Codec> { return std::make_unique<PowerSgd>(o.rank); });
}

}  // namespace taxon::codec
