#include "model/torch/own_network.h"

#include <fmt/format.h>

#include <utility>

#include "model/torch/networks/module_network.h"
#include "model/torch/torch_model.h"

namespace taxon::model {
namespace {

/// By whatever class: nothing is known of it but its tensors.
class OwnNetwork final : public Network {
 public:
  OwnNetwork(torch::nn::Module& module, OwnForward forward, plan::ModelReturns returns)
      : module_(module), forward_(std::move(forward)), returns_(returns) {}

  std::vector<NamedTensor> parameters() const override { return listed(module_.named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return listed(module_.named_buffers()); }
  std::vector<std::string> stages() const override { return {}; }
  std::string undivided() const override {
    return ", as a module with a forward() of its own is; choose a torch::nn::Sequential, or a bundled model "
           "of "
           "several layers";
  }
  plan::ModelReturns returns() const override { return returns_; }
  at::Tensor forward(int, at::Tensor inputs) override { return run({std::move(inputs)}).at(0); }
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) override { return forward_(inputs); }
  void set_mode(Mode mode) override { module_.train(mode == Mode::Train); }
  void cast(at::ScalarType type) override {
    cast_floating(parameters(), type);
    cast_floating(buffers(), type);
  }
  void offer(const at::Tensor& parameter, GradientTarget* target) override {
    offer_to_layers(module_, parameter, target);
  }
  ErrorKind fault() const override { return ErrorKind::Usage; }

 private:
  torch::nn::Module& module_;
  const OwnForward forward_;
  const plan::ModelReturns returns_;
};

}  // namespace

std::unique_ptr<Model> make_own_model(const ModelContext& context, torch::nn::Module& module,
                                      OwnForward forward, plan::ModelReturns returns, LossFunction loss) {
  return std::make_unique<TorchModel>(
      module.name(), context,
      [&] { return std::make_unique<OwnNetwork>(module, std::move(forward), returns); }, std::move(loss));
}

std::unique_ptr<Model> make_own_model(const ModelContext& context, torch::nn::SequentialImpl& chain,
                                      LossFunction loss) {
  if (!context.shape.more.empty())
    throw Error(ErrorKind::Usage,
                fmt::format("torch::nn::Sequential takes one tensor, and samples of the data set have {}; "
                            "give it one (data.inputs), or a module with a forward() of several",
                            data::describe(context.shape)));
  const auto make = [&] {
    // Somebody else's, who lets it live longer.
    const std::shared_ptr<torch::nn::SequentialImpl> module(std::shared_ptr<void>(), &chain);
    return std::make_unique<ModuleNetwork>(module, at::MemoryFormat::Contiguous, ErrorKind::Usage);
  };
  return std::make_unique<TorchModel>(chain.name(), context, make, std::move(loss));
}

}  // namespace taxon::model
