// A training set as a rank's loader prepares it: encoded images to normalised samples, transforms drawn.
// bench_images RECIPE [KEY.PATH=VALUE...] answers each line of its standard input with a line of JSON:
//   load {"threads", "batch", "batches", "unmeasured"}: seconds of so many batches, after some that are not
//   measured dump {"count", "file"}: writes the first samples of epoch 0, float32 one after the other
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "comm/runtime.h"
#include "data/loader.h"
#include "data/transform.h"
#include "job/recipes.h"
#include "net/loopback/loopback.h"
#include "task/poll_loop.h"
#include "tensor/cpu_device.h"

namespace taxon::bench {
namespace {

struct Load {
  int threads = 1;
  std::int64_t batch = 64, batches = 1, unmeasured = 0;
};

/// What a step asks for, and nothing else: whoever waits for the next batch at once waits for reading alone.
task::Task<void> take_all(comm::Runtime* runtime, const data::Dataset* dataset, std::uint64_t seed, Load load,
                          double* seconds) {
  const std::int64_t total = (load.unmeasured + load.batches) * load.batch;
  data::Loader loader(*runtime, *dataset, data::Sampler(seed, dataset->size(), load.batch), 2, 0, total, 1,
                      0);
  auto begin = std::chrono::steady_clock::now();
  for (std::int64_t taken = 0; !loader.at_end(); ++taken) {
    if (taken == load.unmeasured) begin = std::chrono::steady_clock::now();
    auto next = loader.next();
    const data::Batch batch = co_await next;
  }
  *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  auto closed = loader.close();
  co_await closed;
}

double seconds_of(const data::Dataset& dataset, std::uint64_t seed, const Load& load) {
  task::PollLoop loop;
  net::LoopbackWorld world(loop, 1);
  tensor::CpuDevice device(loop, {.data_threads = load.threads});
  comm::FlightRecorder recorder;
  comm::Runtime runtime{world.transport(Rank(0)), device, recorder};
  double seconds = 0;
  auto taking = take_all(&runtime, &dataset, seed, load, &seconds);
  loop.run(std::move(taking));
  return seconds;
}

void dump(const data::Dataset& dataset, std::size_t count, const std::string& path) {
  std::vector<std::int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  data::Samples samples(dataset.shape(), count);
  dataset.read_parts(0, indices, samples.rooms(dataset.shape(), {0, count}));
  const std::span<const float> pixels = data::numbers(samples.inputs().parts[0]);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(pixels.data()), static_cast<std::streamsize>(pixels.size_bytes()));
  if (!file) throw std::runtime_error("cannot write " + path);
}

nlohmann::json answer(const data::Dataset& dataset, const plan::Plan& plan, const std::string& line) {
  const auto space = line.find(' ');
  const auto request = nlohmann::json::parse(line.substr(space));
  if (line.substr(0, space) == "dump") {
    dump(dataset, request.at("count"), request.at("file"));
    return {{"shape", dataset.shape().input}};
  }
  const Load load{.threads = request.at("threads"),
                  .batch = request.at("batch"),
                  .batches = request.at("batches"),
                  .unmeasured = request.at("unmeasured")};
  return {{"seconds", seconds_of(dataset, plan.seed, load)}};
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) try {
  using namespace taxon;
  if (argc < 2) throw std::runtime_error("usage: bench_images RECIPE [KEY.PATH=VALUE...]");
  const plan::Plan plan = job::read_recipe(argv[1], {argv + 2, argv + argc});
  const data::FileStorage files;
  data::Datasets sets = data::open_datasets(plan.data, files);
  const auto dataset = data::transformed(std::move(sets.train), plan.data, data::Chance::Training, plan.seed);
  for (std::string line; std::getline(std::cin, line) && line != "quit";)
    std::cout << bench::answer(*dataset, plan, line).dump() << std::endl;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
