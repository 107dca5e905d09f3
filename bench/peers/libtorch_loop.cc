// One plain libtorch process that trains a network of docs/benchmarks.md, as a sensible user would write it.
// Answers each line `train {"steps", "batch", "rate", "test_samples", "memory_format"}` with a line of JSON:
// the seconds and the loss of each step, when it was over, of it the seconds of forward and backward, and the
// test accuracy.
// [--model NAME] [--data FOLDER] [--weights SAFETENSORS] --order FILE: what it trains (Fashion-MNIST, or for
// gpt the folder's train.txt), where it begins, and in which order it takes samples. Threads are as many as
// OMP_NUM_THREADS says, or [--threads T].
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/utils.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "peers/data.h"
#include "peers/networks.h"
#include "side/channel.h"

namespace taxon::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Settings {
  std::int64_t batch = 64;
  double rate = 0.001;
  int steps = 0;
  std::int64_t test_samples = 0;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
};

Settings settings_from(const nlohmann::json& request) {
  const std::string format = request.at("memory_format");
  return {
      .batch = request.at("batch"),
      .rate = request.at("rate"),
      .steps = request.at("steps"),
      .test_samples = request.at("test_samples"),
      .format = format == "channels_last" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous};
}

/// What is the same in every request: the network, data, where training begins, and in which order it takes
/// samples.
struct Common {
  std::string model;
  Dataset data, test;
  std::string weights;  // a safetensors file with conv1.weight and so on; empty: drawn from a seed
  at::Tensor order;     // indices, epoch after epoch
};

at::Tensor order_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto count = static_cast<std::int64_t>(bytes.size() / sizeof(std::int64_t));
  return torch::from_blob(bytes.data(), {count}, torch::kInt64).clone();
}

nlohmann::json train(const Common& common, const Settings& settings) {
  torch::manual_seed(1);
  const PlainNetwork network = plain_network(common.model);
  const auto model = network.module;
  if (!common.weights.empty()) begin_with(*model, common.weights);
  // As Module.to(memory_format=...) of Python, which the C++ module lacks.
  for (auto& parameter : model->parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().clone(settings.format));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(settings.rate).momentum(0.9));
  std::vector<double> step_seconds, ends, compute_seconds;
  std::vector<at::Tensor> losses;
  std::int64_t next = 0;
  for (int step = 0; step < settings.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    // The last batch of an epoch is smaller.
    const std::int64_t all = common.data.labels.size(0), size = std::min(settings.batch, all - next % all);
    if (next + size > common.order.size(0)) throw std::runtime_error("the order has too few epochs");
    const auto chosen = common.order.slice(0, next, next + size);
    next += size;
    // As zero_grad(set_to_none=True) of Python: libtorch 1.13's C++ would write zeros, and add to them.
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    {
      const auto samples = common.data.samples.index_select(0, chosen);
      const auto output = network.forward(samples.dim() == 4 ? samples.contiguous(settings.format) : samples);
      const auto loss = torch::nn::functional::cross_entropy(
          output.view({-1, output.size(-1)}), common.data.labels.index_select(0, chosen).flatten());
      loss.backward();
      compute_seconds.push_back(seconds_since(begin));
      optimizer.step();
      losses.push_back(loss.detach());
    }  // what the step leaves is freed in its time, as everybody else's is
    step_seconds.push_back(seconds_since(begin));
    ends.push_back(
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  }
  std::int64_t parameters = 0;
  for (const auto& parameter : model->parameters()) parameters += parameter.numel();
  std::vector<float> figures;
  for (const at::Tensor& loss : losses) figures.push_back(loss.item<float>());
  nlohmann::json result = {{"seconds", step_seconds},
                           {"ends", ends},
                           {"compute_seconds", compute_seconds},
                           {"losses", figures},
                           {"parameters", parameters},
                           {"threads", torch::get_num_threads()}};
  if (settings.test_samples > 0)
    result["test_accuracy"] =
        accuracy(network, common.test.samples.slice(0, 0, settings.test_samples), common.test.labels);
  return result;
}

}  // namespace
}  // namespace taxon::bench
int main(int argc, char** argv) {
  using namespace taxon::bench;
  const std::string folder = option(argc, argv, "data", "/usr/share/datasets/fashion-mnist");
  const std::string model = option(argc, argv, "model", "cnn");
  if (const int threads = std::stoi(option(argc, argv, "threads", "0")); threads > 0)
    torch::set_num_threads(threads);
  const std::int64_t context = plain_network(model).context;
  const Common common{
      .model = model,
      .data = context > 0 ? load_text(folder + "/train.txt", context) : load_fashion_mnist(folder, "train"),
      .test = context > 0 ? Dataset{} : load_fashion_mnist(folder, "t10k"),
      .weights = option(argc, argv, "weights", ""),
      .order = order_in(option(argc, argv, "order", ""))};
  for (std::string line; std::getline(std::cin, line);) {
    const auto space = line.find(' ');
    if (line.substr(0, space) != "train") return 0;
    std::cout << train(common, settings_from(nlohmann::json::parse(line.substr(space)))).dump() << std::endl;
  }
}
