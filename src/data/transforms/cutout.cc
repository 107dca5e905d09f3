#include <algorithm>

#include "data/transform.h"

namespace taxon::data {
namespace {

struct CutoutOptions {
  std::int64_t size = 8;
  double fill = 0;
};
template <plan::Like<CutoutOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "size", .sentence = "Of the square's sides, in pixels.", .min = 1, .max = 65536},
        o.size);
  visit(plan::Field{.key = "fill", .sentence = "What pixels of the square become."}, o.fill);
}

/// DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout", 2017.
class Cutout final : public Transform {
 public:
  Cutout(const CutoutOptions& options, const ImageExtents& image) : options_(options), image_(image) {}
  std::vector<std::int64_t> output() const override { return image_.list(); }
  void apply(std::span<const float> from, std::span<float> to, Rng* rng) const override {
    std::copy(from.begin(), from.end(), to.begin());
    if (!rng) return;
    // Its centre is drawn, so a part of it may lie outside.
    auto draw = [&](std::int64_t extent) {
      const auto centre = static_cast<std::int64_t>(rng->below(static_cast<std::uint64_t>(extent)));
      const std::int64_t begin = centre - options_.size / 2;
      return std::pair(std::max<std::int64_t>(0, begin), std::min(extent, begin + options_.size));
    };
    const auto [top, bottom] = draw(image_.height);
    const auto [left, right] = draw(image_.width);
    for (std::int64_t c = 0; c < image_.channels; ++c)
      for (std::int64_t y = top; y < bottom; ++y)
        for (std::int64_t x = left; x < right; ++x)
          to[static_cast<std::size_t>((c * image_.height + y) * image_.width + x)] =
              static_cast<float>(options_.fill);
  }

 private:
  const CutoutOptions options_;
  const ImageExtents image_;
};

}  // namespace

TransformRow cutout() {
  return {.name = "cutout",
          .sentence = "A square anywhere in the image is blanked; tests: none.",
          .make = [](const plan::Options& options,
                     const std::vector<std::int64_t>& input) -> std::unique_ptr<Transform> {
            return std::make_unique<Cutout>(options.read<CutoutOptions>(), require_image(input, "cutout"));
          },
          .options = plan::option_keys<CutoutOptions>};
}

}  // namespace taxon::data
