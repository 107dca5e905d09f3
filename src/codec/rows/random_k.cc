#include <algorithm>

#include "codec/chosen.h"
#include "codec/codec.h"
#include "codec/scan.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

/// One entry of each of k equal parts, at a place that all members draw alike: their values can be summed,
/// and no place travels (Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018;
/// stratified).
class RandomK final : public Codec {
 public:
  explicit RandomK(const ChosenOptions& options) : chosen_(options) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Linear, DType::Float32}};
    return kRounds;
  }
  ElementCost cost() const override {
    const double share = chosen_.share();
    return {10 * share, 4 + 70 * share, 10 * share, 4 + 70 * share};
  }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return chosen_.of(extent.count) * sizeof(float);
  }
  std::size_t scratch_bytes(const Extent&) const override { return 0; }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    auto sent = as_span<float>(wire);
    if (!all_finite(values, context.isa)) {
      fill_not_finite(sent);
      return false;
    }
    for (std::size_t i = 0; i < sent.size(); ++i) {
      float& value = values[place(values.size(), sent.size(), i, context.shared)];
      sent[i] = value;
      if (residual == Residual::Keep) value = 0;
    }
    return true;
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    auto sum = as_span<float>(wire);
    if (!all_finite(sum, context.isa)) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    for (std::size_t i = 0; i < sum.size(); ++i)
      values[place(values.size(), sum.size(), i, context.shared)] += sum[i];
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext& context) const override {
    const std::size_t entries = wire.size() / sizeof(float);
    for (std::size_t i = 0; i < entries; ++i) values[place(values.size(), entries, i, context.shared)] = 0;
  }

 private:
  static std::size_t place(std::size_t count, std::size_t entries, std::size_t i, std::uint64_t key) {
    return stratified({count, entries}, i, key);
  }
  const Chosen chosen_;
};

}  // namespace

CodecRow random_k() {
  return codec_row<ChosenOptions>({.name = "random_k",
                                   .sentence = "k entries, at places that everybody draws alike",
                                   .bytes = "4 k",
                                   .source = "Stich et al., NeurIPS 2018; one of each of k equal parts",
                                   .biased = true,
                                   .sends_entries = true,
                                   .rules = kEntriesOfWholeRanges},
                                  [](const ChosenOptions& options) -> std::unique_ptr<Codec> {
                                    return std::make_unique<RandomK>(options);
                                  });
}

}  // namespace taxon::codec
