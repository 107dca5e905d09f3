#include <fmt/format.h>

#include "base/error.h"
#include "data/transform.h"

namespace taxon::data {
namespace {

struct NormaliseOptions {
  std::vector<double> mean = {0};
  std::vector<double> deviation = {1};
};
template <plan::Like<NormaliseOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "mean", .sentence = "Subtracted: one number, or one for each channel."}, o.mean);
  visit(plan::Field{.key = "deviation",
                    .sentence = "What is left is divided by this: one number, or one for each channel.",
                    .min = 0,
                    .above_min = true},
        o.deviation);
}

class Normalise final : public Transform {
 public:
  Normalise(const NormaliseOptions& options, const std::vector<std::int64_t>& input) : output_(input) {
    // The first extent of an image is that of its channels; other samples have one.
    const auto channels = static_cast<std::size_t>(input.size() == 3 ? input[0] : 1);
    auto number = [&](const std::vector<double>& list, std::size_t channel, const char* key) {
      if (list.size() != 1 && list.size() != channels)
        throw Error(ErrorKind::Usage,
                    fmt::format("data.transforms: normalise has {} numbers as {}, and samples have {} "
                                "channel{}; give one, or one for each",
                                list.size(), key, channels, channels == 1 ? "" : "s"));
      return list.size() == 1 ? list[0] : list[channel];
    };
    for (std::size_t c = 0; c < channels; ++c) {
      mean_.push_back(static_cast<float>(number(options.mean, c, "mean")));
      factor_.push_back(static_cast<float>(1 / number(options.deviation, c, "deviation")));
    }
  }
  std::vector<std::int64_t> output() const override { return output_; }
  void apply(std::span<const float> from, std::span<float> to, Rng*) const override {
    const std::size_t plane = from.size() / mean_.size();
    for (std::size_t c = 0; c < mean_.size(); ++c)
      for (std::size_t k = c * plane; k < (c + 1) * plane; ++k) to[k] = (from[k] - mean_[c]) * factor_[c];
  }

 private:
  const std::vector<std::int64_t> output_;
  std::vector<float> mean_, factor_;  // of each channel
};

}  // namespace

TransformRow normalise() {
  return {.name = "normalise",
          .sentence = "(value - mean) / deviation, channel by channel, after data.mean and data.deviation.",
          .make = [](const plan::Options& options,
                     const std::vector<std::int64_t>& input) -> std::unique_ptr<Transform> {
            return std::make_unique<Normalise>(options.read<NormaliseOptions>(), input);
          },
          .options = plan::option_keys<NormaliseOptions>};
}

}  // namespace taxon::data
