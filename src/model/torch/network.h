#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/sample_shape.h"
#include "model/torch/gradients.h"
#include "model/torch/named_tensor.h"
#include "model/torch/splitter.h"
#include "plan/model_file.h"

namespace taxon::model {

enum class Mode { Train, Evaluate };

/// A module of the framework, whoever wrote it: what TorchModel needs of it and no more.
class Network {
 public:
  virtual ~Network() = default;
  /// In the order of registration, which is the order of forward in practice. Handles: changing their data
  /// changes the network. Shared tensors may come several times.
  virtual std::vector<NamedTensor> parameters() const = 0;
  virtual std::vector<NamedTensor> buffers() const = 0;
  /// The consecutive stages of the forward pass by name: each reads only its own parameters. Empty: it can't
  /// be cut, and is one stage.
  virtual std::vector<std::string> stages() const = 0;
  /// Where there are none: why, in words that follow "it is one segment".
  virtual std::string undivided() const { return ""; }
  /// The stage whose own a parameter or buffer of that name is: by default its name is the stage's, or begins
  /// with it. -1: none.
  virtual int stage_of(const std::string& tensor) const;
  /// One stage after the other takes a batch of inputs to logits [batch, classes], or [batch, targets...,
  /// classes] where samples have several labels. Throws what the framework throws.
  virtual at::Tensor forward(int stage, at::Tensor inputs) = 0;
  /// Before a forward() of the same: what a linear layer of the stage makes of the first rows of its weight,
  /// see GradientTarget::begun. By default nothing: forward() does it all.
  virtual void forward_rows(int /*stage*/, const at::Tensor& /*inputs*/, std::int64_t /*rows*/) {}
  /// Of a network of one stage: all that it gives of all tensors of a batch, and of the labels after them
  /// where it is to give a loss first. Throws Error{Data} for another number of tensors than it takes.
  virtual std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) {
    return {forward(0, std::move(inputs.front()))};
  }
  /// What comes first of what run() gives.
  virtual plan::ModelReturns returns() const { return plan::ModelReturns::Logits; }
  /// Parameters of other stages that this one reads beside its own. Where there are any the backward pass is
  /// taken whole.
  virtual std::vector<at::Tensor> borrowed(int /*stage*/) const { return {}; }
  /// How the members of a tensor axis divide it, Splitter::finish(); from now on it computes as one of them,
  /// as soon as tensors are cut as this says. Throws Error{Usage} that says all that can't be divided.
  virtual NetworkSplit split(Splitter splitter);
  /// Of a network that is split: one step of a stage. `entering`: what its first step took, where this one
  /// reads it. Features are dimension 1.
  virtual at::Tensor forward(int stage, int /*step*/, at::Tensor inputs, const at::Tensor& /*entering*/) {
    return forward(stage, std::move(inputs));
  }
  /// The order of images with which it is fastest.
  virtual at::MemoryFormat fastest() const { return at::MemoryFormat::Contiguous; }
  virtual void set_mode(Mode mode) = 0;
  /// Computes in `type` from now on: parameters, and buffers where that loses nothing that counts.
  virtual void cast(at::ScalarType type) = 0;
  /// From now on the gradient of `parameter` goes to `target`, which outlives the network's use: a layer may
  /// write there directly whenever target.direct is set.
  virtual void offer(const at::Tensor& parameter, GradientTarget* target) = 0;
  /// Samples that a pass takes at most; 0: any number.
  virtual std::int64_t largest_batch() const { return 0; }
  /// True for the weight of a linear layer that offer() reaches and that sees each sample once.
  virtual bool is_linear(const at::Tensor& /*parameter*/) const { return false; }
  /// What to blame when forward or backward fails.
  virtual ErrorKind fault() const = 0;
};

/// Throws Error{Data} if the file is missing or is no TorchScript module.
std::unique_ptr<Network> load_script(const std::string& path, plan::ModelReturns returns);
/// A file of torch.export.save. Throws Error{Data} if it is missing, cut short, or of another kind or
/// version, if it has operators that this libtorch has not, and if it does not map inputs of that shape to
/// logits, or these and labels to a loss.
std::unique_ptr<Network> load_exported(const std::string& path, const data::SampleShape& shape,
                                       plan::ModelReturns returns);

}  // namespace taxon::model
