#include "model/torch/weight_reads.h"

#include <utility>

#include "base/check.h"

namespace taxon::model {
namespace {

thread_local const WeightReads* listening = nullptr;  // callbacks are plain functions

}  // namespace

WeightReads::WeightReads(std::unordered_map<const c10::StorageImpl*, int> weights, Read read)
    : weights_(std::move(weights)), read_(std::move(read)) {
  // Once: what is removed inside of a backward pass autograd puts back, with the rest of the thread's state.
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&WeightReads::begins).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

WeightReads::~WeightReads() {
  end();
  at::removeCallback(handle_);
}

void WeightReads::begin() {
  TAXON_CHECK(listening == nullptr || listening == this, "somebody listens on this thread");
  listening = this;
}

void WeightReads::end() {
  if (listening == this) listening = nullptr;
}

bool WeightReads::begun() const { return listening == this; }

void WeightReads::leave_out(int which, const std::function<void()>& body) {
  struct LeftOut {
    int& which;
    ~LeftOut() { which = -1; }
  } restored{left_out_};
  left_out_ = which;
  body();
}

std::unique_ptr<at::ObserverContext> WeightReads::begins(const at::RecordFunction& operation) {
  if (listening == nullptr) return nullptr;
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
  if (found != weights_.end() && found->second != left_out_) read_(found->second);
}

}  // namespace taxon::model
