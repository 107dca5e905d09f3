#include <fmt/format.h>

#include "base/error.h"
#include "data/transform.h"

namespace taxon::data {
namespace {

struct CropOptions {
  std::int64_t padding = 4;
  std::int64_t size = 0;
  double fill = 0;
};
template <plan::Like<CropOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "padding",
                    .sentence = "Pixels that the image is enlarged by on each side before.",
                    .min = 0,
                    .max = 4096},
        o.padding);
  visit(plan::Field{.key = "size",
                    .sentence = "Height and width of what is cut out; 0: those of the image.",
                    .min = 0,
                    .max = 65536},
        o.size);
  visit(plan::Field{.key = "fill", .sentence = "What pixels of the padding are."}, o.fill);
}

/// He et al., "Deep residual learning for image recognition", CVPR 2016, section 4.2.
class RandomCrop final : public Transform {
 public:
  RandomCrop(const CropOptions& options, const ImageExtents& input)
      : options_(options), input_(input), output_(input) {
    if (options.size > 0) output_.height = output_.width = options.size;
    if (output_.height > input.height + 2 * options.padding ||
        output_.width > input.width + 2 * options.padding)
      throw Error(
          ErrorKind::Usage,
          fmt::format("data.transforms: random_crop cuts {} x {} pixels out of images of {} x {} with "
                      "a padding of {}; make size smaller or padding larger",
                      output_.height, output_.width, input.height, input.width, options.padding));
  }
  std::vector<std::int64_t> output() const override { return output_.list(); }
  void apply(std::span<const float> from, std::span<float> to, Rng* rng) const override {
    // Of the cut in the image, from whose corner the padding goes on in the negative.
    std::int64_t top = (input_.height - output_.height) / 2, left = (input_.width - output_.width) / 2;
    if (rng) {
      auto draw = [&](std::int64_t extent, std::int64_t cut) {
        const std::int64_t ways = extent + 2 * options_.padding - cut + 1;
        return static_cast<std::int64_t>(rng->below(static_cast<std::uint64_t>(ways))) - options_.padding;
      };
      top = draw(input_.height, output_.height);
      left = draw(input_.width, output_.width);
    }
    std::size_t at = 0;
    for (std::int64_t c = 0; c < output_.channels; ++c)
      for (std::int64_t y = top; y < top + output_.height; ++y)
        for (std::int64_t x = left; x < left + output_.width; ++x) {
          const bool inside = y >= 0 && y < input_.height && x >= 0 && x < input_.width;
          to[at++] = inside ? from[static_cast<std::size_t>((c * input_.height + y) * input_.width + x)]
                            : static_cast<float>(options_.fill);
        }
  }

 private:
  const CropOptions options_;
  const ImageExtents input_;
  ImageExtents output_;
};

}  // namespace

TransformRow random_crop() {
  return {.name = "random_crop",
          .sentence = "A part of the padded image, drawn evenly; tests: its middle.",
          .make = [](const plan::Options& options,
                     const std::vector<std::int64_t>& input) -> std::unique_ptr<Transform> {
            return std::make_unique<RandomCrop>(options.read<CropOptions>(),
                                                require_image(input, "random_crop"));
          },
          .options = plan::option_keys<CropOptions>};
}

}  // namespace taxon::data
