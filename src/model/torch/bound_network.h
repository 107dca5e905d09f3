#pragma once

#include <fmt/format.h>

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/torch/bound_tensors.h"
#include "model/torch/framework.h"
#include "model/torch/loss.h"
#include "model/torch/network.h"
#include "model/torch/reason.h"

namespace taxon::model {

/// How the samples' part of a tensor lies in memory: extents and strides without the first dimension, which
/// is that of the samples, one after the other.
struct SampleLayout {
  std::vector<std::int64_t> sizes, strides;
  at::ScalarType type = at::kFloat;
  std::int64_t elements() const;
  /// `memory` as so many samples that lie so.
  at::Tensor view(void* memory, std::int64_t samples) const;
};
/// As `batch` lies, or one dimension after the other where its samples don't lie one after the other.
SampleLayout layout_of(const at::Tensor& batch);
/// The same order of dimensions, with other extents of the first one.
SampleLayout resized(const SampleLayout& layout, std::int64_t features);

/// A network with its tensors, and how calls of it are made: what TorchModel and StagedNetwork share.
struct BoundNetwork {
  struct Batch {
    std::vector<at::Tensor> inputs;  // [samples, extents of the part], numbers of the compute type
    at::Tensor labels;               // of all samples, one after the other
  };
  std::string name;
  data::SampleShape shape;
  at::ScalarType compute;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;  // of inputs
  int threads = 1;                                         // of the compute thread
  RandomStream stream;
  std::unique_ptr<Network> network;
  std::unique_ptr<BoundTensors> tensors;
  LossFunction own_loss;              // in place of the task's; null: none
  bool scored = true;                 // what the network gives is what the task counts its scores of
  std::vector<SampleLayout> outputs;  // of each stage of the network

  std::size_t samples_of(const data::Values& labels) const {
    return labels.size() / static_cast<std::size_t>(shape.targets());
  }
  Batch batch(const data::Inputs& inputs, const data::Values& labels, Range samples) const {
    return {inputs_of(inputs, samples), labels_of(labels, samples)};
  }
  std::vector<at::Tensor> inputs_of(const data::Inputs& inputs, Range samples) const;
  /// Labels as the data set's shape has them, for who makes a loss of their own; real ones of that type.
  at::Tensor as_learnt(const at::Tensor& labels, at::ScalarType type) const;
  at::Tensor labels_of(const data::Values& labels, Range samples) const;
  /// So many samples, for a look at what becomes of them.
  Batch zeros(std::int64_t samples) const;
  /// Whether what the network gave for so many samples are logits, or numbers where targets are real.
  bool gives_logits(const at::Tensor& outputs, std::int64_t samples) const;
  /// As [labels, classes], or [labels] where targets are real numbers. Throws Error{Data} for another shape.
  at::Tensor checked_logits(const at::Tensor& outputs, std::int64_t samples) const;
  /// Of what the network gave for the samples with these labels. Throws Error{Data} for outputs that are no
  /// logits, if it is the task's, and Error{Usage} for a loss of the program's own that is none.
  Loss loss(const at::Tensor& outputs, const at::Tensor& labels) const;
  /// The same where somebody has made the mean over samples. `outputs`, for scores: undefined if there are
  /// none.
  Loss given_loss(const at::Tensor& mean, const at::Tensor& outputs, const at::Tensor& labels) const;
  /// Of outputs [samples, targets..., classes of this member], as many of all as members: summaries
  /// [samples, numbers, targets...] of the compute type.
  at::Tensor summary(const at::Tensor& outputs, const at::Tensor& labels) const;
  /// Of all members' summaries, one's numbers after the other's.
  Loss loss_of_summaries(const at::Tensor& summaries, const at::Tensor& labels) const;
  /// Lets the network's layers know where the gradients of the tensors go, and the spec which are linear.
  void offer_targets();
  /// They don't go there any more: to be called before `tensors` die, as layers may be somebody else's.
  void withdraw_targets();

  /// Runs `body` inside a FrameworkCall; the framework's exceptions become Errors.
  template <class Body>
  auto call(const char* operation, const Body& body) {
    FrameworkCall state(stream, threads);
    try {
      return body();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(network->fault(),
                  fmt::format("model {} failed in {}: {}", name, operation, reason_of(error)),
                  {.operation = operation});
    }
  }

 private:
  std::int64_t samples_of(const at::Tensor& labels) const { return labels.numel() / shape.targets(); }
  std::vector<std::int64_t> shape_of_logits(std::int64_t samples) const;
  Loss task_loss(const at::Tensor& outputs, const at::Tensor& labels) const;
  at::Tensor own_mean(const at::Tensor& outputs, const at::Tensor& labels) const;
};

}  // namespace taxon::model
