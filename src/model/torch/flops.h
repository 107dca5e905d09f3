#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>

namespace taxon::model {

/// Floating-point operations that `forward` spends on each weight of a convolution or linear layer, keyed by
/// the weight's identity; a multiply-add is two.
std::map<const at::TensorImpl*, double> count_flops(const std::function<void()>& forward);

}  // namespace taxon::model
