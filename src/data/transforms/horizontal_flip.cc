#include <algorithm>

#include "data/transform.h"

namespace taxon::data {
namespace {

struct FlipOptions {
  double probability = 0.5;
};
template <plan::Like<FlipOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "probability", .sentence = "That the image is hit.", .min = 0, .max = 1},
        o.probability);
}

class HorizontalFlip final : public Transform {
 public:
  HorizontalFlip(const FlipOptions& options, const ImageExtents& image)
      : probability_(options.probability), image_(image) {}
  std::vector<std::int64_t> output() const override { return image_.list(); }
  void apply(std::span<const float> from, std::span<float> to, Rng* rng) const override {
    const bool flips = rng && rng->uniform() < probability_;
    if (!flips) {
      std::copy(from.begin(), from.end(), to.begin());
      return;
    }
    const auto width = static_cast<std::ptrdiff_t>(image_.width);
    for (std::ptrdiff_t row = 0; row < std::ssize(from); row += width)
      std::reverse_copy(from.begin() + row, from.begin() + row + width, to.begin() + row);
  }

 private:
  const double probability_;
  const ImageExtents image_;
};

}  // namespace

TransformRow horizontal_flip() {
  return {.name = "horizontal_flip",
          .sentence = "Left and right change places by chance; tests: never.",
          .make = [](const plan::Options& options,
                     const std::vector<std::int64_t>& input) -> std::unique_ptr<Transform> {
            return std::make_unique<HorizontalFlip>(options.read<FlipOptions>(),
                                                    require_image(input, "horizontal_flip"));
          },
          .options = plan::option_keys<FlipOptions>};
}

}  // namespace taxon::data
