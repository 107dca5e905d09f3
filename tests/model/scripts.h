#pragma once

#include <torch/script.h>

#include <string>

namespace taxon::model {

/// TorchScript modules defined here rather than exported by Python, as files in the test's folder.
class Script {
 public:
  explicit Script(const std::string& name) : module(name) {
    module.register_attribute("training", c10::BoolType::get(), true);
  }
  Script& parameter(const std::string& name, at::IntArrayRef sizes, bool trainable = true) {
    at::Tensor values = at::linspace(-0.5, 0.5, c10::multiply_integers(sizes)).reshape(sizes).sin_();
    module.register_parameter(name, values.set_requires_grad(trainable), /*is_buffer=*/false);
    return *this;
  }
  Script& buffer(const std::string& name, const at::Tensor& value) {
    module.register_buffer(name, value);
    return *this;
  }
  /// `source` defines forward(self, x). Returns the file's path.
  std::string save(const std::string& path, const std::string& source) {
    module.define(source);
    module.save(path);
    return path;
  }
  torch::jit::Module module;
};

}  // namespace taxon::model
