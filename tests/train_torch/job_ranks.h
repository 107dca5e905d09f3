#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "control/job.h"
#include "job/job.h"
#include "support/process_log.h"
#include "support/processes.h"

namespace taxon::test {

inline void say_parameters(const torch::nn::Module& net, const ProcessLog& log) {
  std::string line = "parameters";
  for (const auto& item : net.named_parameters()) {
    const torch::Tensor values = item.value().to(torch::kFloat64).contiguous();
    for (std::int64_t i = 0; i < values.numel(); ++i)
      line += fmt::format(" {:a}", values.data_ptr<double>()[i]);
  }
  log.say(line);
}

/// [process][parameter]
inline std::vector<std::vector<double>> parameters_in(const ProcessLog& log) {
  std::vector<std::vector<double>> all;
  std::istringstream lines(log.read());
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("parameters ")) continue;
    std::istringstream words(line.substr(11));
    std::vector<double> values;
    for (std::string word; words >> word;) values.push_back(std::strtod(word.c_str(), nullptr));
    all.push_back(values);
  }
  return all;
}

using Program = std::function<void(job::Job&, const ProcessLog&)>;

/// Runs `program` as so many ranks of a launcher that speaks by plain variables; their exit codes.
inline std::vector<int> run_ranks(int ranks, const plan::Plan& plan, const Program& program,
                                  const ProcessLog& log) {
  const int port = control::free_port();
  return run_processes(ranks, [&](Process& process) {
    setenv("RANK", std::to_string(process.index()).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
    try {
      job::Job job = job::Job::from_environment(plan);
      program(job, log);
      job.leave();
      return testing::Test::HasFailure() ? 2 : 0;
    } catch (const std::exception& error) {
      log.say(fmt::format("[{}] {}", process.index(), error.what()));
      return 1;
    }
  });
}

}  // namespace taxon::test
