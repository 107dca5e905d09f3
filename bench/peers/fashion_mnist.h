#pragma once

#include <torch/types.h>

#include <string>

namespace taxon::bench {

struct Dataset {
  at::Tensor images;  // [n, 1, 28, 28] float32, normalised
  at::Tensor labels;  // [n] int64
};

/// `part` is "train" or "t10k". Reads the gzip IDX files of Debian's dataset-fashion-mnist.
Dataset load_fashion_mnist(const std::string& folder, const std::string& part);

}  // namespace taxon::bench
