#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <filesystem>

#include "model/torch/network.h"
#include "model/torch/reason.h"

namespace taxon::model {
namespace {

/// A module out of a TorchScript file.
class ScriptNetwork final : public Network {
 public:
  explicit ScriptNetwork(torch::jit::Module module) : module_(std::move(module)) {}

  std::vector<NamedTensor> parameters() const override { return listed(module_.named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return listed(module_.named_buffers()); }

  std::vector<std::string> stages() const override { return {}; }
  at::Tensor forward(int, at::Tensor inputs) override {
    // The optimising executor rewrites the graph after its first runs, so that a resumed run would not give
    // the bits of an undisturbed one; Debian's build has no CPU fuser that it could gain from.
    torch::jit::GraphOptimizerEnabledGuard plain(false);
    const c10::IValue outputs = module_.forward({inputs});
    if (!outputs.isTensor())
      throw Error(ErrorKind::Data,
                  fmt::format("the TorchScript module must give one tensor of logits, but gave {}",
                              outputs.tagKind()));
    return outputs.toTensor();
  }

  void set_mode(Mode mode) override { module_.train(mode == Mode::Train); }

  void cast(at::ScalarType type) override {
    cast_floating(parameters(), type);
    cast_floating(buffers(), type);
  }

  void offer(const at::Tensor&, GradientTarget*) override {}
  ErrorKind fault() const override { return ErrorKind::Data; }

 private:
  template <class List>
  static std::vector<NamedTensor> listed(const List& tensors) {
    std::vector<NamedTensor> list;
    for (const auto& item : tensors)
      if (item.value.defined()) list.push_back({item.name, item.value});
    return list;
  }
  torch::jit::Module module_;
};

}  // namespace

std::unique_ptr<Network> load_script(const std::string& path) {
  const ErrorContext context{.operation = "load", .tensor = path};
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorKind::Data, fmt::format("model.torchscript: there is no file {}", path), context);
  try {
    return std::make_unique<ScriptNetwork>(torch::jit::load(path));
  } catch (const std::exception& error) {
    const std::string why = reason_of(error);
    throw Error(ErrorKind::Data,
                fmt::format("{} is not a TorchScript file that this libtorch can load (save the model with "
                            "torch.jit.script(model).save(path)): {}",
                            path, why.substr(0, why.find('\n'))),
                context);
  }
}

}  // namespace taxon::model
