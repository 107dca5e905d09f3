#include "model/torch/flops.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

namespace taxon::model {
namespace {

/// An operator that multiplies by matrices of weights, `count` of its arguments from `first` on.
struct Product {
  std::string_view name;
  std::size_t first = 1, count = 1;
  std::int64_t outputs = 0;  // the last one's dimension that says how many numbers come out at a position
};
/// Every convolution ends in aten::_convolution. Linear layers are aten::linear, or one of the matrix
/// products that it consists of, as in torch::nn::functional. Newer releases have LSTMs computed by oneDNN, a
/// layer at a time.
constexpr Product kProducts[] = {{.name = "aten::_convolution"},
                                 {.name = "aten::linear"},
                                 {.name = "aten::mm", .outputs = 1},
                                 {.name = "aten::addmm", .first = 2, .outputs = 1},
                                 {.name = "aten::mkldnn_rnn_layer", .count = 2, .outputs = 1}};

/// The count that runs on this thread, where the observer's callbacks, plain functions, find it.
struct Count {
  Flops flops;
  bool inside = false;  // of an operator that is counted: what it consists of is not
};
thread_local Count* active = nullptr;

struct Operation final : at::ObserverContext {
  std::vector<at::Tensor> matrices;
  std::int64_t outputs = 1;
};

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  if (!active || active->inside) return nullptr;
  const std::string_view name = function.name();
  const auto* product = std::find_if(std::begin(kProducts), std::end(kProducts),
                                     [&](const Product& one) { return one.name == name; });
  if (product == std::end(kProducts) || function.inputs().size() < product->first + product->count)
    return nullptr;
  auto operation = std::make_unique<Operation>();
  for (const c10::IValue& matrix : function.inputs().slice(product->first, product->count))
    operation->matrices.push_back(matrix.toTensor());
  operation->outputs = operation->matrices.back().size(product->outputs);
  active->inside = true;
  return operation;
}

void ended(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* operation = static_cast<Operation*>(context);
  if (!active || !operation) return;
  active->inside = false;
  if (function.outputs().empty() || !function.outputs()[0].isTensor()) return;
  const double positions =
      static_cast<double>(function.outputs()[0].toTensor().numel()) / static_cast<double>(operation->outputs);
  for (const at::Tensor& matrix : operation->matrices)
    active->flops[matrix.data_ptr()] += 2.0 * static_cast<double>(matrix.numel()) * positions;
}

class Observer {
 public:
  explicit Observer(Count* count)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(started, ended)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
    active = count;
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

Flops count_flops(const std::function<void()>& forward) {
  Count count;
  Observer observer(&count);
  forward();
  return std::move(count.flops);
}

double total(const Flops& flops) {
  double sum = 0;
  for (const auto& [matrix, count] : flops) sum += count;
  return sum;
}

}  // namespace taxon::model
