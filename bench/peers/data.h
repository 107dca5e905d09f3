#pragma once

#include <torch/types.h>

#include <string>

namespace taxon::bench {

/// In memory, ready for a step.
struct Dataset {
  at::Tensor samples;  // images [n, 1, 28, 28] float32, normalised; or windows [n, context] int64
  at::Tensor labels;   // [n] int64; or of each token the one that follows, [n, context]
};

/// `part` is "train" or "t10k". Reads the gzip IDX files of Debian's dataset-fashion-mnist.
Dataset load_fashion_mnist(const std::string& folder, const std::string& part);
/// Windows of so many bytes of a text, none of which shares an input with the next.
Dataset load_text(const std::string& path, std::int64_t context);

}  // namespace taxon::bench
