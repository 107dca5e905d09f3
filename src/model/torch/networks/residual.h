#pragma once

#include <torch/nn.h>

#include <array>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "model/torch/networks/layers.h"
#include "plan/choice.h"
#include "plan/field.h"

namespace taxon::model {

/// The first convolution: of 3 x 3 pixels, or as published, of 7 x 7 with stride 2 and a pooling behind it.
enum class Stem { Small, Published };

}  // namespace taxon::model

namespace taxon::plan {

template <>
struct Words<model::Stem> {
  static constexpr std::string_view all[] = {"3x3", "7x7"};
};

}  // namespace taxon::plan

namespace taxon::model {

struct ResidualOptions {
  Stem stem = Stem::Small;
};
template <plan::Like<ResidualOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{.key = "stem",
                  .sentence = "First convolution: 3x3 for small images; 7x7 as published for those of 224 x "
                              "224, with stride 2 and a pooling that halves them again."},
      o.stem);
}

/// A convolution of a residual block.
struct BlockConvolution {
  std::int64_t channels, extent, stride;
};

/// Networks of He et al., "Deep residual learning for image recognition", CVPR 2016.
struct ResidualLayout {
  std::string_view name;
  std::array<int, 4> blocks;  // of each group, whose first one but in the first group halves the image
  /// Of a block whose group has so many channels inside: 64, 128, 256, 512.
  std::vector<BlockConvolution> (*block)(std::int64_t channels, std::int64_t stride);
};

/// With the names of torchvision, and PyTorch's initial values of layers. Throws Error{Usage} for samples
/// that are no images, or so small ones that nothing is left of them.
Chain make_residual(const ModelContext& context, const ResidualLayout& layout);

}  // namespace taxon::model
