#include "parallel/network.h"

namespace taxon::parallel {

/// Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015,
/// table 1, configuration A, for images of 224 x 224.
NetworkRow vgg_a() {
  return network_row<NoOptions>(
      {.name = "vgg-a",
       .sentence = "8 convolutions of 3x3 and 3 linear layers, for images of 224x224",
       .source = "Simonyan and Zisserman, ICLR 2015",
       .batch = 256},
      [](const NoOptions&) -> Network {
        return {.name = "vgg-a",
                .sample = "image",
                .layers = {
                    convolution("conv1", {3, 64, 3, 224, 224}), convolution("conv2", {64, 128, 3, 112, 112}),
                    convolution("conv3", {128, 256, 3, 56, 56}), convolution("conv4", {256, 256, 3, 56, 56}),
                    convolution("conv5", {256, 512, 3, 28, 28}), convolution("conv6", {512, 512, 3, 28, 28}),
                    convolution("conv7", {512, 512, 3, 14, 14}), convolution("conv8", {512, 512, 3, 14, 14}),
                    linear("fc6", {25088, 4096}), linear("fc7", {4096, 4096}), linear("fc8", {4096, 1000})}};
      });
}

}  // namespace taxon::parallel
