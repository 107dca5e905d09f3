// One plain libtorch process that trains a network of docs/benchmarks.md, as a sensible user would write it.
// Answers each line `train {"steps", "batch", "rate", "test_samples", "memory_format"}` with a line of JSON:
// the seconds and the loss of each step, of it the seconds of forward and backward, and the test accuracy.
// [--model NAME] [--threads T] [--data FOLDER] [--weights SAFETENSORS] [--order FILE]: what it trains, where
// it begins, and in which order it takes samples.
#include <torch/data.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/utils.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "peers/fashion_mnist.h"
#include "peers/networks.h"
#include "side/channel.h"

namespace taxon::bench {
namespace {

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
  at::Tensor order;     // indices, epoch after epoch; empty: drawn from a seed
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

at::Tensor order_in(const std::string& path) {
  if (path.empty()) return torch::randperm(60000, torch::kInt64);
  std::string bytes = contents(path);
  const auto count = static_cast<std::int64_t>(bytes.size() / sizeof(std::int64_t));
  return torch::from_blob(bytes.data(), {count}, torch::kInt64).clone();
}

/// The parameters as the file has them, by their names.
void begin_with(torch::nn::Sequential& model, const std::string& path) {
  const std::string bytes = contents(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto head = nlohmann::json::parse(bytes.substr(sizeof length, length));
  const torch::NoGradGuard no_gradients;
  for (auto& parameter : model->named_parameters()) {
    const auto& at = head.at(parameter.key());
    std::string values = bytes.substr(sizeof length + length + at.at("data_offsets")[0].get<std::size_t>(),
                                      static_cast<std::size_t>(parameter->numel()) * sizeof(float));
    parameter->copy_(torch::from_blob(values.data(), parameter->sizes(), torch::kFloat32));
  }
}

nlohmann::json train(const Common& common, const Settings& settings) {
  torch::manual_seed(1);
  auto model = plain_network(common.model);
  if (!common.weights.empty()) begin_with(model, common.weights);
  // As Module.to(memory_format=...) of Python, which the C++ module lacks.
  for (auto& parameter : model->parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().clone(settings.format));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(settings.rate).momentum(0.9));
  std::vector<double> step_seconds, compute_seconds;
  std::vector<at::Tensor> losses;
  std::int64_t next = 0;
  for (int step = 0; step < settings.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    // The last batch of an epoch is smaller.
    const std::int64_t samples = common.data.labels.size(0);
    const std::int64_t size = std::min(settings.batch, samples - next % samples);
    if (next + size > common.order.size(0)) throw std::runtime_error("the order has too few epochs");
    const auto chosen = common.order.slice(0, next, next + size);
    next += size;
    optimizer.zero_grad();
    const auto output =
        model->forward(common.data.images.index_select(0, chosen).contiguous(settings.format));
    const auto loss =
        torch::nn::functional::cross_entropy(output, common.data.labels.index_select(0, chosen));
    loss.backward();
    compute_seconds.push_back(seconds_since(begin));
    optimizer.step();
    step_seconds.push_back(seconds_since(begin));
    losses.push_back(loss.detach());
  }
  std::int64_t parameters = 0;
  for (const auto& parameter : model->parameters()) parameters += parameter.numel();
  std::vector<float> figures;
  for (const at::Tensor& loss : losses) figures.push_back(loss.item<float>());
  nlohmann::json result = {{"seconds", step_seconds},
                           {"compute_seconds", compute_seconds},
                           {"losses", figures},
                           {"parameters", parameters}};
  if (settings.test_samples > 0)
    result["test_accuracy"] = accuracy(model, common.test, settings.test_samples);
  return result;
}

}  // namespace
}  // namespace taxon::bench
int main(int argc, char** argv) {
  using namespace taxon::bench;
  const std::string folder = option(argc, argv, "data", "/usr/share/datasets/fashion-mnist");
  torch::set_num_threads(std::stoi(option(argc, argv, "threads", "1")));
  const Common common{.model = option(argc, argv, "model", "cnn"),
                      .data = load_fashion_mnist(folder, "train"),
                      .test = load_fashion_mnist(folder, "t10k"),
                      .weights = option(argc, argv, "weights", ""),
                      .order = order_in(option(argc, argv, "order", ""))};
  for (std::string line; std::getline(std::cin, line);) {
    const auto space = line.find(' ');
    if (line.substr(0, space) != "train") return 0;
    std::cout << train(common, settings_from(nlohmann::json::parse(line.substr(space)))).dump() << std::endl;
  }
}
