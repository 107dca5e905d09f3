#include <algorithm>
#include <cmath>
#include <optional>

#include "data/resize.h"
#include "data/transform.h"

namespace taxon::data {
namespace {

constexpr int kTries = 10;

struct ResizedCropOptions {
  std::int64_t size = 0;
  double area = 0.08;
  double aspect = 4.0 / 3;
  double test_share = 0.875;
};
template <plan::Like<ResizedCropOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "size",
                    .sentence = "Height and width of the result; 0: those of the image.",
                    .min = 0,
                    .max = 65536},
        o.size);
  visit(plan::Field{.key = "area",
                    .sentence = "Least share of the image that is cut out; the most is all of it.",
                    .min = 0,
                    .max = 1,
                    .above_min = true},
        o.area);
  visit(
      plan::Field{
          .key = "aspect", .sentence = "Largest ratio of the cut's sides, either way.", .min = 1, .max = 100},
      o.aspect);
  visit(plan::Field{.key = "test_share",
                    .sentence = "Share of the shorter side that tests see, around the middle.",
                    .min = 0,
                    .max = 1,
                    .above_min = true},
        o.test_share);
}

/// Szegedy et al., "Going deeper with convolutions", CVPR 2015, section 6: area and aspect are drawn, the
/// latter evenly in its logarithm.
class ResizedCrop final : public Transform {
 public:
  ResizedCrop(const ResizedCropOptions& options, const ImageExtents& input)
      : options_(options), input_(input), output_(input) {
    if (options.size > 0) output_.height = output_.width = options.size;
  }
  std::vector<std::int64_t> output() const override { return output_.list(); }
  void apply(std::span<const float> from, std::span<float> to, Rng* rng) const override {
    std::optional<Region> region;
    for (int attempt = 0; rng && !region && attempt < kTries; ++attempt) region = draw(*rng);
    resize(from, input_, region ? *region : middle(rng ? 1 : options_.test_share), to, output_);
  }

 private:
  std::optional<Region> draw(Rng& rng) const {
    const auto all = static_cast<double>(input_.height * input_.width);
    const double area = all * (options_.area + (1 - options_.area) * rng.uniform());
    const double aspect = std::exp((2 * rng.uniform() - 1) * std::log(options_.aspect));
    const std::int64_t height = std::lround(std::sqrt(area / aspect)),
                       width = std::lround(std::sqrt(area * aspect));
    if (height < 1 || width < 1 || height > input_.height || width > input_.width) return {};
    const auto top = rng.below(static_cast<std::uint64_t>(input_.height - height + 1));
    const auto left = rng.below(static_cast<std::uint64_t>(input_.width - width + 1));
    return Region{static_cast<std::int64_t>(top), static_cast<std::int64_t>(left), height, width};
  }
  /// Of the result's aspect.
  Region middle(double share) const {
    const double scale = std::min(static_cast<double>(input_.height) / static_cast<double>(output_.height),
                                  static_cast<double>(input_.width) / static_cast<double>(output_.width));
    auto side = [&](std::int64_t wanted, std::int64_t extent) {
      return std::clamp<std::int64_t>(std::lround(share * scale * static_cast<double>(wanted)), 1, extent);
    };
    const std::int64_t height = side(output_.height, input_.height),
                       width = side(output_.width, input_.width);
    return {(input_.height - height) / 2, (input_.width - width) / 2, height, width};
  }

  const ResizedCropOptions options_;
  const ImageExtents input_;
  ImageExtents output_;
};

}  // namespace

TransformRow resized_crop() {
  return {.name = "resized_crop",
          .sentence = "A part of drawn area and aspect, brought to one size; tests: the middle.",
          .make = [](const plan::Options& options,
                     const std::vector<std::int64_t>& input) -> std::unique_ptr<Transform> {
            return std::make_unique<ResizedCrop>(options.read<ResizedCropOptions>(),
                                                 require_image(input, "resized_crop"));
          },
          .options = plan::option_keys<ResizedCropOptions>};
}

}  // namespace taxon::data
