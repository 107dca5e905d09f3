#include "parallel/network.h"

namespace taxon::parallel {

/// Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 1404.5997: AlexNet
/// with one column, for images of 224 x 224.
NetworkRow alexnet() {
  return network_row<NoOptions>(
      {.name = "alexnet",
       .sentence = "5 convolutions and 3 linear layers, for images of 224x224",
       .source = "Krizhevsky, arXiv 1404.5997",
       .batch = 128},
      [](const NoOptions&) -> Network {
        return {.name = "alexnet",
                .sample = "image",
                .layers = {
                    convolution("conv1", {3, 64, 11, 224, 55}), convolution("conv2", {64, 192, 5, 27, 27}),
                    convolution("conv3", {192, 384, 3, 13, 13}), convolution("conv4", {384, 256, 3, 13, 13}),
                    convolution("conv5", {256, 256, 3, 13, 13}), linear("fc6", {9216, 4096}),
                    linear("fc7", {4096, 4096}), linear("fc8", {4096, 1000})}};
      });
}

}  // namespace taxon::parallel
