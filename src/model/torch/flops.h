#pragma once

#include <functional>
#include <map>

namespace taxon::model {

/// Floating-point operations that `forward` spends on matrices of weights of convolutions, linear and
/// recurrent layers, keyed by where a matrix begins in memory; a multiply-add is two.
using Flops = std::map<const void*, double>;
Flops count_flops(const std::function<void()>& forward);

/// Of all matrices.
double total(const Flops& flops);

}  // namespace taxon::model
