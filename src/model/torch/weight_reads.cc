#include "model/torch/weight_reads.h"

#include <utility>

#include "base/check.h"

namespace taxon::model {
namespace {

thread_local const WeightReads* listening = nullptr;  // callbacks are plain functions

}  // namespace

WeightReads::WeightReads(std::unordered_map<const c10::StorageImpl*, int> weights, Read read)
    : weights_(std::move(weights)), read_(std::move(read)) {
  TAXON_CHECK(listening == nullptr, "somebody listens on this thread");
  listening = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&WeightReads::begins).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

WeightReads::~WeightReads() {
  at::removeCallback(handle_);
  listening = nullptr;
}

std::unique_ptr<at::ObserverContext> WeightReads::begins(const at::RecordFunction& operation) {
  for (const c10::IValue& input : operation.inputs()) {
    if (input.isTensor()) {
      listening->note(input.toTensor());
    } else if (input.isTensorList()) {
      for (const at::Tensor& tensor : input.toTensorVector()) listening->note(tensor);
    }
  }
  return nullptr;
}

void WeightReads::note(const at::Tensor& input) const {
  if (!input.defined() || !input.has_storage()) return;
  const auto found = weights_.find(input.storage().unsafeGetStorageImpl());
  if (found != weights_.end()) read_(found->second);
}

}  // namespace taxon::model
