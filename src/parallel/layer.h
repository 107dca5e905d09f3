#pragma once

#include <cstdint>
#include <string>

namespace taxon::parallel {

/// A layer as far as splitting it goes: counts of elements and operations, of one sample. Without state and
/// without a framework.
struct Layer {
  std::string name;
  std::string shape;           // for people: "3x3, 64 to 128 at 112x112"
  std::int64_t weights = 0;    // of its matrix or kernels: what is split by output features
  std::int64_t vectors = 0;    // parameters beside these: biases, norms
  double macs = 0;             // multiply-adds of a forward pass; each backward pass takes as many
  std::int64_t exchanged = 0;  // elements that a split by features gathers forward, and reduces backward:
                               // its input
  std::int64_t outputs = 0;    // elements that it makes
  std::int64_t ways = 1;       // into how many parts it can be split: its output features, or heads
};

inline std::int64_t parameters(const Layer& layer) { return layer.weights + layer.vectors; }
/// Of one sample: forward, gradients of inputs, gradients of weights.
inline double training_flops(const Layer& layer) { return 6 * layer.macs; }

/// kernel x kernel over maps of in_side x in_side, with biases. Strides and padding are in the sides.
struct ConvolutionShape {
  std::int64_t inputs = 0, outputs = 0;  // channels
  int kernel = 1;
  int in_side = 1, out_side = 1;
};
Layer convolution(std::string name, const ConvolutionShape& shape);

/// Of each of `positions` of a sample, with biases.
struct LinearShape {
  std::int64_t inputs = 0, outputs = 0;
  std::int64_t positions = 1;
};
Layer linear(std::string name, const LinearShape& shape);

}  // namespace taxon::parallel
