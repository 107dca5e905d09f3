// One plain libtorch process that trains the cnn of docs/benchmarks.md, as a sensible user would write it.
// Prints one line of JSON: the seconds of each step, of it the seconds of forward and backward, and the test
// accuracy.
// --steps N [--threads T] [--batch 64] [--lr 0.05] [--data FOLDER] [--evaluate 1]
#include <torch/data.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/utils.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "peers/fashion_mnist.h"
#include "side/channel.h"

namespace taxon::bench {
namespace {

torch::nn::Sequential cnn() {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(1, 32, 3).padding(1)), ReLU(), MaxPool2d(2),
                    Conv2d(Conv2dOptions(32, 64, 3).padding(1)), ReLU(), MaxPool2d(2), Flatten(),
                    Linear(64 * 7 * 7, 1024), ReLU(), Linear(1024, 10));
}

double accuracy(torch::nn::Sequential& model, const Dataset& data, std::int64_t samples) {
  const torch::NoGradGuard no_gradients;
  model->eval();
  std::int64_t right = 0;
  for (std::int64_t begin = 0; begin < samples; begin += 500) {
    const auto end = std::min(begin + 500, samples);
    const auto guess = model->forward(data.images.slice(0, begin, end)).argmax(1);
    right += guess.eq(data.labels.slice(0, begin, end)).sum().item<std::int64_t>();
  }
  return static_cast<double>(right) / static_cast<double>(samples);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Settings {
  std::int64_t batch = 64;
  double rate = 0.05;
  int steps = 0;
  std::int64_t test_samples = 0;
};

nlohmann::json train(const Dataset& data, const Dataset& test, const Settings& settings) {
  torch::manual_seed(1);
  auto model = cnn();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(settings.rate).momentum(0.9));
  std::vector<double> step_seconds, compute_seconds;
  at::Tensor order, loss;
  const std::int64_t samples = data.labels.size(0);
  std::int64_t next = samples;
  for (int step = 0; step < settings.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    if (next + settings.batch > samples) {
      order = torch::randperm(samples, torch::kInt64);
      next = 0;
    }
    const auto chosen = order.slice(0, next, next + settings.batch);
    next += settings.batch;
    optimizer.zero_grad();
    const auto output = model->forward(data.images.index_select(0, chosen));
    loss = torch::nn::functional::cross_entropy(output, data.labels.index_select(0, chosen));
    loss.backward();
    compute_seconds.push_back(seconds_since(begin));
    optimizer.step();
    step_seconds.push_back(seconds_since(begin));
  }
  std::int64_t parameters = 0;
  for (const auto& parameter : model->parameters()) parameters += parameter.numel();
  nlohmann::json result = {{"seconds", step_seconds},
                           {"compute_seconds", compute_seconds},
                           {"train_loss", loss.item<float>()},
                           {"parameters", parameters}};
  if (settings.test_samples > 0) result["test_accuracy"] = accuracy(model, test, settings.test_samples);
  return result;
}

}  // namespace
}  // namespace taxon::bench
int main(int argc, char** argv) {
  using namespace taxon::bench;
  const std::string folder = option(argc, argv, "data", "/usr/share/datasets/fashion-mnist");
  Settings settings{.batch = std::stoll(option(argc, argv, "batch", "64")),
                    .rate = std::stod(option(argc, argv, "lr", "0.05"))};
  torch::set_num_threads(std::stoi(option(argc, argv, "threads", "1")));
  const Dataset data = load_fashion_mnist(folder, "train"), test = load_fashion_mnist(folder, "t10k");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb >> settings.steps >> settings.test_samples;
    if (verb != "train") return 0;
    std::cout << train(data, test, settings).dump() << std::endl;
  }
}
