#include "codec/fixed.h"

#include <algorithm>

#include "codec/packing.h"

namespace taxon::codec {
namespace {

struct Encode {
  static TAXON_INLINE std::size_t run(float* values, std::size_t count, std::uint8_t* codes, float threshold,
                                      bool keep_rest) {
    for (std::size_t first = 0; first < count; first += kPiece, codes += kPiece / 4) {
      const std::size_t length = std::min(kPiece, count - first);
      float padded_values[kPiece];
      float* from = values + first;
      if (length < kPiece) {
        std::fill_n(std::copy_n(from, length, padded_values), kPiece - length, 0.0F);
        from = padded_values;
      }
      if (!are_finite(from, kPiece)) return first;
      Codes<2>::pack(
          codes, [&](std::size_t i) __attribute__((always_inline)) {
            const float value = from[i];
            const std::uint32_t code = (value >= threshold ? 2U : 1U) - (value <= -threshold ? 1U : 0U);
            if (keep_rest)
              from[i] = value - static_cast<float>(static_cast<std::int32_t>(code) - 1) * threshold;
            return code;
          });
      if (keep_rest && length < kPiece) std::copy_n(padded_values, length, values + first);
    }
    return count;
  }
};

template <bool kAdd>
struct Decode {
  static TAXON_INLINE void run(const std::uint8_t* codes, float threshold, float* values, std::size_t count) {
    for (std::size_t first = 0; first < count; first += kPiece, codes += kPiece / 4) {
      const std::size_t length = std::min(kPiece, count - first);
      float padded_values[kPiece];
      float* to = values + first;
      if (length < kPiece) {
        std::fill_n(std::copy_n(to, length, padded_values), kPiece - length, 0.0F);
        to = padded_values;
      }
      Codes<2>::unpack<kAdd>(codes, 1, threshold, to);
      if (length < kPiece) std::copy_n(padded_values, length, values + first);
    }
  }
};

class FixedThreshold final : public BlockKernel {
 public:
  explicit FixedThreshold(float threshold) : BlockKernel({kPiece, 0, 2}), threshold_(threshold) {}
  double encode_flops() const override { return 5; }
  std::size_t encode(std::span<float> values, std::span<float>, std::span<std::uint8_t> codes, bool keep_rest,
                     std::uint64_t, Isa path) const override {
    return run_on<Encode>(path, values.data(), values.size(), codes.data(), threshold_, keep_rest);
  }
  void decode(std::span<const float>, std::span<const std::uint8_t> codes, bool add, std::span<float> values,
              Isa path) const override {
    if (add)
      run_on<Decode<true>>(path, codes.data(), threshold_, values.data(), values.size());
    else
      run_on<Decode<false>>(path, codes.data(), threshold_, values.data(), values.size());
  }

 private:
  const float threshold_;
};

}  // namespace

std::unique_ptr<const BlockKernel> fixed_threshold(float threshold) {
  return std::make_unique<FixedThreshold>(threshold);
}

}  // namespace taxon::codec
