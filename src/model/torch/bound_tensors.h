#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/torch/gradients.h"
#include "model/torch/named_tensor.h"

namespace taxon::model {

/// The tensors of one network: what a Model says of them, and where they lie during training. Whoever runs
/// the network's passes calls from one thread at a time.
class BoundTensors {
 public:
  struct Source {
    std::string model;
    std::vector<NamedTensor> parameters, buffers;  // shared tensors may come several times
    /// The parameters as they were before a cast to fewer bits, in the same order; empty: there was none.
    std::vector<NamedTensor> exact = {};
    /// Of Network::stages(), and Network::stage_of(); parameters of none are in the segment of their child.
    std::vector<std::string> stages;
    std::function<int(const std::string&)> stage_of;  // null where there are no stages
    std::vector<std::string> frozen;                  // patterns, as ModelPlan::frozen
    bool channels_last = false;                       // see ParameterSpec
  };
  /// Throws Error{Usage} for frozen names that no parameter has, Error{Data} for a parameter that is a view
  /// of another one, for complex numbers and whole ones of 2^53 or more, and where nothing is left to train.
  explicit BoundTensors(Source source);
  /// Some of a model's, as the spec lists them. There may be nothing to train.
  /// `exact`: of these parameters, or empty.
  BoundTensors(ModelSpec spec, std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers,
               std::vector<NamedTensor> exact);

  ModelSpec& spec() { return spec_; }
  const ModelSpec& spec() const { return spec_; }
  const std::vector<NamedTensor>& parameters() const { return parameters_; }  // in the order of the spec
  /// As Source has it; empty: the parameters are it themselves.
  const std::vector<NamedTensor>& exact() const { return exact_; }
  const std::vector<int>& trainable() const { return trainable_; }  // indices into parameters()
  const std::vector<NamedTensor>& buffer_tensors() const { return buffers_; }
  GradientSink& gradients() { return *gradients_; }
  const GradientSink& gradients() const { return *gradients_; }

  /// As Model's. The weights' type is that of the parameters.
  void bind(const Binding& binding);
  void unbind();
  /// Throws Error{Usage} naming a parameter that its owner has given other memory, or another type, since
  /// bind(), or that is no longer frozen: it would be trained no more, or not at all.
  void require_bound() const;
  /// The parameters become views of Binding::versions[version]. Graphs whose forward passes saw others are
  /// right again once these are in use again.
  void use(std::size_t version);
  std::vector<double> buffers() const;
  void set_buffers(std::span<const double> values);
  /// Of trainable ones until bind(), and always of frozen ones, with all bits of Source::exact.
  std::vector<double> parameter_values() const;
  void set_parameter_values(std::span<const double> values);
  std::vector<GradientTransfer> crossings() const;

 private:
  void keep_exact(const Source& source);
  void freeze(const std::vector<std::string>& patterns);
  void describe(const Source& source);
  void make_sink();

  std::vector<NamedTensor> parameters_, buffers_;  // each tensor once
  std::vector<NamedTensor> exact_;                 // of the parameters; empty: they are that themselves
  std::vector<int> trainable_;
  ModelSpec spec_;
  std::vector<int> bound_;                         // slot -> index into the spec's parameters
  std::vector<const void*> places_;                // slot -> where its parameter lies
  DType type_ = DType::Float32;                    // of the bound ones
  bool in_parts_ = false;                          // see Binding
  std::vector<std::vector<at::Tensor>> versions_;  // of the binding, its slots
  std::unique_ptr<GradientSink> gradients_;        // of the trainable parameters, in that order
};

}  // namespace taxon::model
