#include "model/torch/flops.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <memory>
#include <string_view>
#include <vector>

namespace taxon::model {
namespace {

using Flops = std::map<const at::TensorImpl*, double>;

/// Where the observer's callbacks, plain functions, find the table of the count that runs on this thread.
thread_local Flops* active = nullptr;

struct Operation final : at::ObserverContext {
  std::vector<at::Tensor> matrices;
  std::int64_t outputs = 1;  // of one position: of a pixel, a token, a sample
};

/// Every convolution ends in aten::_convolution; both it and aten::linear are called as (input, weight, ...).
/// Newer releases have LSTMs computed by oneDNN, a layer at a time: (input, weight_ih, weight_hh, ...).
std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  if (!active) return nullptr;
  const std::string_view name = function.name();
  const bool is_recurrent = name == "aten::mkldnn_rnn_layer";
  if (!is_recurrent && name != "aten::_convolution" && name != "aten::linear") return nullptr;
  if (function.inputs().size() < 3) return nullptr;  // nobody recorded them
  auto operation = std::make_unique<Operation>();
  for (const c10::IValue& weight : function.inputs().slice(1, is_recurrent ? 2 : 1))
    operation->matrices.push_back(weight.toTensor());
  const at::Tensor& last = operation->matrices.back();
  operation->outputs = last.size(is_recurrent ? 1 : 0);
  return operation;
}

void ended(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* operation = static_cast<Operation*>(context);
  if (!active || !operation || function.outputs().empty() || !function.outputs()[0].isTensor()) return;
  const double positions =
      static_cast<double>(function.outputs()[0].toTensor().numel()) / static_cast<double>(operation->outputs);
  for (const at::Tensor& weight : operation->matrices)
    (*active)[weight.unsafeGetTensorImpl()] += 2.0 * static_cast<double>(weight.numel()) * positions;
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
