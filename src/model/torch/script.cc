#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <algorithm>
#include <filesystem>

#include "model/torch/network.h"
#include "model/torch/reason.h"

namespace taxon::model {
namespace {

/// A module out of a TorchScript file.
class ScriptNetwork final : public Network {
 public:
  ScriptNetwork(torch::jit::Module module, plan::ModelReturns returns)
      : module_(std::move(module)), returns_(returns) {}

  std::vector<NamedTensor> parameters() const override { return listed(module_.named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return listed(module_.named_buffers()); }

  std::vector<std::string> stages() const override { return {}; }
  std::string undivided() const override {
    return ", as TorchScript files are: export it with torch.export, or choose a bundled model of several "
           "layers";
  }
  plan::ModelReturns returns() const override { return returns_; }
  at::Tensor forward(int, at::Tensor inputs) override { return run({std::move(inputs)}).front(); }
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) override {
    const auto& arguments = module_.get_method("forward").function().getSchema().arguments();
    const auto needed = std::count_if(arguments.begin(), arguments.end(),
                                      [](const c10::Argument& a) { return !a.default_value().has_value(); });
    // The first is the module.
    if (std::ssize(inputs) + 1 < needed || inputs.size() + 1 > arguments.size())
      fail(fmt::format("takes {} tensors, and there are {} of a batch", arguments.size() - 1, inputs.size()));
    // The optimising executor rewrites the graph after its first runs, so that a resumed run would not give
    // the bits of an undisturbed one; Debian's build has no CPU fuser that it could gain from.
    torch::jit::GraphOptimizerEnabledGuard plain(false);
    const c10::IValue outputs = module_.forward(std::vector<c10::IValue>(inputs.begin(), inputs.end()));
    if (outputs.isTensor()) return {outputs.toTensor()};
    std::vector<at::Tensor> tensors;
    if (outputs.isTuple())
      for (const c10::IValue& output : outputs.toTupleRef().elements())
        if (output.isTensor()) tensors.push_back(output.toTensor());
    if (tensors.empty() || !outputs.toTupleRef().elements()[0].isTensor())
      fail(
          fmt::format("must give a tensor, or a tuple that begins with one, but gave {}", outputs.tagKind()));
    return tensors;
  }

  void set_mode(Mode mode) override { module_.train(mode == Mode::Train); }

  void cast(at::ScalarType type) override {
    cast_floating(parameters(), type);
    cast_floating(buffers(), type);
  }

  void offer(const at::Tensor&, GradientTarget*) override {}
  ErrorKind fault() const override { return ErrorKind::Data; }

 private:
  [[noreturn]] static void fail(const std::string& why) {
    throw Error(ErrorKind::Data, "the TorchScript module " + why);
  }
  template <class List>
  static std::vector<NamedTensor> listed(const List& tensors) {
    std::vector<NamedTensor> list;
    for (const auto& item : tensors)
      if (item.value.defined()) list.push_back({item.name, item.value});
    return list;
  }
  torch::jit::Module module_;
  const plan::ModelReturns returns_;
};

}  // namespace

std::unique_ptr<Network> load_script(const std::string& path, plan::ModelReturns returns) {
  const ErrorContext context{.operation = "load", .tensor = path};
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorKind::Data, fmt::format("model.torchscript: there is no file {}", path), context);
  try {
    return std::make_unique<ScriptNetwork>(torch::jit::load(path, at::kCPU), returns);
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
