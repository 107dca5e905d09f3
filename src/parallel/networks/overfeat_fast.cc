#include "parallel/network.h"

namespace taxon::parallel {

/// Sermanet et al., "OverFeat: integrated recognition, localization and detection using convolutional
/// networks", ICLR 2014, the fast model, for images of 231 x 231.
NetworkRow overfeat_fast() {
  return network_row<NoOptions>(
      {.name = "overfeat-fast",
       .sentence = "5 convolutions and 3 linear layers, for images of 231x231",
       .source = "Sermanet et al., ICLR 2014",
       .batch = 256},
      [](const NoOptions&) -> Network {
        return {.name = "overfeat-fast",
                .sample = "image",
                .layers = {
                    convolution("conv1", {3, 96, 11, 231, 56}), convolution("conv2", {96, 256, 5, 28, 24}),
                    convolution("conv3", {256, 512, 3, 12, 12}), convolution("conv4", {512, 1024, 3, 12, 12}),
                    convolution("conv5", {1024, 1024, 3, 12, 12}), linear("fc6", {36864, 3072}),
                    linear("fc7", {3072, 4096}), linear("fc8", {4096, 1000})}};
      });
}

}  // namespace taxon::parallel
