#include "model/torch/flops.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstring>
#include <memory>

namespace taxon::model {
namespace {

using Flops = std::map<const at::TensorImpl*, double>;

/// Where the observer's callbacks, plain functions, find the table of the count that runs on this thread.
thread_local Flops* active = nullptr;

struct Operation final : at::ObserverContext {
  at::Tensor weight;
};

/// Both operators are called as (input, weight, ...); every convolution ends in aten::_convolution.
std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  const bool counted = std::strcmp(function.name(), "aten::_convolution") == 0 ||
                       std::strcmp(function.name(), "aten::linear") == 0;
  if (!active || !counted || function.inputs().size() < 2 || !function.inputs()[1].isTensor()) return nullptr;
  auto operation = std::make_unique<Operation>();
  operation->weight = function.inputs()[1].toTensor();
  return operation;
}

void ended(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* operation = static_cast<Operation*>(context);
  if (!active || !operation || function.outputs().empty() || !function.outputs()[0].isTensor()) return;
  const at::Tensor& weight = operation->weight;
  const double per_output = 2.0 * static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  (*active)[weight.unsafeGetTensorImpl()] +=
      per_output * static_cast<double>(function.outputs()[0].toTensor().numel());
}

class Observer {
 public:
  explicit Observer(Flops* flops)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(started, ended)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
    active = flops;
  }
  ~Observer() {
    active = nullptr;
    at::removeCallback(handle_);
  }
  Observer(const Observer&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

std::map<const at::TensorImpl*, double> count_flops(const std::function<void()>& forward) {
  Flops flops;
  Observer observer(&flops);
  forward();
  return flops;
}

}  // namespace taxon::model
