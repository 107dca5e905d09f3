// A program's own loop over the plain cnn of docs/benchmarks.md, as one rank of its launcher's job: what
// bench/peers/ddp.py does, by taxon::DataParallel. own_loop RECIPE [KEY.PATH=VALUE...]; rank 0 prints a line
// of JSON: the seconds and the loss of each step and the accuracy on the first data.test_limit test samples.
// WEIGHTS in the environment: a safetensors file to begin with.
#include <taxon/data_parallel.h>
#include <taxon/error.h>
#include <torch/nn/functional.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "peers/data.h"
#include "peers/networks.h"

namespace taxon::bench {
namespace {

/// The mean loss of the job's steps, and where this rank's time went.
class Steps final : public train::Observer {
 public:
  void started(const train::RunInfo&) override {}
  void stepped(const train::StepReport& report) override {
    losses.push_back(report.loss);
    compute.push_back(std::chrono::duration<double>(report.compute).count());
    exposed.push_back(std::chrono::duration<double>(report.exposed).count());
  }
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string&) override {}
  std::vector<double> losses, compute, exposed;
};

/// plain_image_network("cnn"), fully connected layers by Taxon's.
torch::nn::Sequential cnn() {
  using namespace torch::nn;
  return Sequential({{"conv1", Conv2d(Conv2dOptions(1, 32, 3).padding(1))},
                     {"relu1", ReLU()},
                     {"pool1", MaxPool2d(2)},
                     {"conv2", Conv2d(Conv2dOptions(32, 64, 3).padding(1))},
                     {"relu2", ReLU()},
                     {"pool2", MaxPool2d(2)},
                     {"flatten", Flatten()},
                     {"fc1", taxon::Linear(64 * 7 * 7, 1024)},
                     {"relu3", ReLU()},
                     {"fc2", taxon::Linear(1024, 10)}});
}

void run(const plan::Plan& plan, const std::string& weights) {
  constexpr const char* kFolder = "/usr/share/datasets/fashion-mnist";
  const Dataset train = load_fashion_mnist(kFolder, "train"), test = load_fashion_mnist(kFolder, "t10k");
  torch::nn::Sequential net = cnn();
  if (!weights.empty()) begin_with(*net, weights);
  Job job = Job::from_environment(plan);
  Steps steps;
  std::vector<double> seconds;
  nlohmann::json result;
  {
    DataParallel model(
        job, net, {.samples = train.labels.size(0), .observer = &steps, .weights = WeightsAtBegin::AsRead});
    while (model.active()) {
      const auto begin = std::chrono::steady_clock::now();
      const auto share = torch::tensor(at::ArrayRef(model.share().data(), model.share().size()));
      const auto output = model.forward(train.samples.index_select(0, share));
      const auto loss = torch::nn::functional::cross_entropy(output, train.labels.index_select(0, share));
      loss.backward();
      model.step(loss.item<double>());
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    result["bytes_sent_per_step"] = model.outcome().bytes_sent_per_step;
    result["copies_per_step"] = model.outcome().copies_per_step;
  }
  if (job.rank() == 0) {
    std::int64_t parameters = 0;
    for (const auto& parameter : net->parameters()) parameters += parameter.numel();
    const std::int64_t tested = plan.data.test_limit;
    result["seconds"] = seconds;
    result["losses"] = steps.losses;
    result["compute_seconds"] = steps.compute;
    result["exposed_seconds"] = steps.exposed;
    result["parameters"] = parameters;
    if (tested > 0)
      result["test_accuracy"] = accuracy({net.ptr(), [&](const at::Tensor& x) { return net->forward(x); }},
                                         test.samples.slice(0, 0, tested), test.labels);
    std::cout << result.dump() << std::endl;
  }
  job.leave();
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) try {
  const std::vector<std::string> overrides(argv + std::min(argc, 2), argv + argc);
  const char* weights = std::getenv("WEIGHTS");
  taxon::bench::run(taxon::read_recipe(argc > 1 ? argv[1] : "", overrides), weights ? weights : "");
} catch (const taxon::Error& error) {
  std::cerr << error.what() << "\n";
  return exit_code(error.kind());
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
