#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <functional>
#include <unordered_map>

namespace taxon::model {

/// Operators of this thread say which weights they are about to read: tensors are known by their memory, so
/// views of weights are seen as well. One at a time on a thread.
class WeightReads {
 public:
  /// Called before the operator runs, with what the weight was listed with, from 0. Throws nothing.
  using Read = std::function<void(int which)>;
  WeightReads(std::unordered_map<const c10::StorageImpl*, int> weights, Read read);
  /// From now on; and no longer.
  void begin();
  void end();
  /// Of what operators in `body` read, that which was listed with `which` is not said.
  void leave_out(int which, const std::function<void()>& body);
  bool begun() const;
  ~WeightReads();
  WeightReads(const WeightReads&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& operation);
  void note(const at::Tensor& input) const;

  const std::unordered_map<const c10::StorageImpl*, int> weights_;
  const Read read_;
  int left_out_ = -1;
  at::CallbackHandle handle_;
};

}  // namespace taxon::model
