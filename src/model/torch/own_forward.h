#pragma once

#include <fmt/format.h>
#include <torch/nn/module.h>

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/torch/own_network.h"

namespace taxon::model {

/// The tensors of what a forward() gave: those that OwnForward speaks of.
template <class Output>
std::vector<at::Tensor> tensors_of(const Output&) {
  static_assert(!std::is_same_v<Output, Output>,
                "forward() must give a tensor, a vector of tensors, or a tuple that begins with a tensor");
  return {};
}
inline std::vector<at::Tensor> tensors_of(const at::Tensor& output) { return {output}; }
inline std::vector<at::Tensor> tensors_of(const std::vector<at::Tensor>& outputs) { return outputs; }
template <class... Rest>
std::vector<at::Tensor> tensors_of(const std::tuple<at::Tensor, Rest...>& outputs) {
  return {std::get<0>(outputs)};
}
template <class... Rest>
std::vector<at::Tensor> tensors_of(const std::tuple<at::Tensor, at::Tensor, Rest...>& outputs) {
  return {std::get<0>(outputs), std::get<1>(outputs)};
}

/// More tensors than any module's forward() is looked for with.
constexpr std::size_t kMostOwnInputs = 8;

/// module.forward() of as many tensors as there are. Throws Error{Usage} if it does not take so many.
template <std::size_t Count = 1, class Module>
std::vector<at::Tensor> call_forward(Module& module, std::vector<at::Tensor> inputs) {
  if constexpr (Count <= kMostOwnInputs) {
    if (inputs.size() != Count) return call_forward<Count + 1>(module, std::move(inputs));
    const auto call = [&]<std::size_t... I>(std::index_sequence<I...>)->std::vector<at::Tensor> {
      if constexpr (requires { module.forward(inputs[I]...); })
        return tensors_of(module.forward(inputs[I]...));
      throw Error(ErrorKind::Usage,
                  fmt::format("forward() of {} does not take {} tensor{}, as many as a batch of the data set "
                              "has with its targets where it gives a loss",
                              module.name(), Count, Count == 1 ? "" : "s"));
    };
    return call(std::make_index_sequence<Count>());
  } else {
    throw Error(ErrorKind::Usage, fmt::format("a batch has {} tensors, and forward() may take {} at most",
                                              inputs.size(), kMostOwnInputs));
  }
}

/// `module` outlives it.
template <std::derived_from<torch::nn::Module> Module>
OwnForward own_forward(Module& module) {
  return [&module](const std::vector<at::Tensor>& inputs) { return call_forward(module, inputs); };
}

}  // namespace taxon::model
