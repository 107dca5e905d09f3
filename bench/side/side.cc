#include "side/side.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace taxon::bench {
namespace {

// A prime period, so that a piece that lands at a wrong place shows; small integers, so that sums are exact.
constexpr std::size_t kPeriod = 251;

float value_of(int rank, std::size_t index) {
  return static_cast<float>((index * 31 + static_cast<std::size_t>(rank) * 17) % kPeriod);
}

void fill(float* data, std::size_t elements, int rank) {
  for (std::size_t i = 0; i < std::min(elements, kPeriod); ++i) data[i] = value_of(rank, i);
  for (std::size_t i = kPeriod; i < elements; ++i) data[i] = data[i - kPeriod];
}

bool check(const float* data, std::size_t elements, int ranks, double factor) {
  std::vector<float> expected(kPeriod);
  for (std::size_t i = 0; i < kPeriod; ++i) {
    double sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += static_cast<double>(value_of(rank, i));
    expected[i] = static_cast<float>(sum * factor);
  }
  for (std::size_t begin = 0; begin < elements; begin += kPeriod) {
    const std::size_t count = std::min(kPeriod, elements - begin);
    if (!std::equal(data + begin, data + begin + count, expected.begin())) return false;
  }
  return true;
}

Request parse(std::istringstream& words) {
  Request request;
  words >> request.operation >> request.bytes >> request.blocks >> request.iterations >> request.variant;
  return request;
}

/// What a rank tells rank 0: {verified, number of blocks, seconds..., sums...}.
std::vector<double> report(const Outcome& outcome) {
  std::vector<double> values{outcome.verified ? 1.0 : 0.0, static_cast<double>(outcome.seconds.size())};
  values.insert(values.end(), outcome.seconds.begin(), outcome.seconds.end());
  values.insert(values.end(), outcome.sums.begin(), outcome.sums.end());
  return values;
}

nlohmann::json merge(const std::vector<std::vector<double>>& ranks) {
  nlohmann::json reply;
  const auto blocks = static_cast<std::size_t>(ranks[0][1]);
  std::vector<double> slowest(blocks, 0.0), sums(ranks[0].size() - blocks - 2, 0.0);
  bool verified = true;
  for (const auto& values : ranks) {
    if (values.size() != ranks[0].size() || values[1] != ranks[0][1])
      return {{"error", "the ranks ran different numbers of blocks"}};
    verified = verified && values[0] == 1;
    for (std::size_t i = 0; i < blocks; ++i) slowest[i] = std::max(slowest[i], values[i + 2]);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[blocks + 2 + i];
  }
  reply["seconds"] = slowest;
  reply["verified"] = verified;
  if (!sums.empty()) reply["sums"] = sums;
  return reply;
}

}  // namespace

void serve(CommandChannel& channel, const std::function<Outcome(const Request&)>& handle) {
  while (const auto line = channel.next()) {
    std::istringstream words(*line);
    std::string verb;
    words >> verb;
    if (verb == "quit") return;
    if (verb != "run") {
      if (channel.place().rank == 0) std::cout << R"({"error": "expected run or quit"})" << std::endl;
      continue;
    }
    const Outcome outcome = handle(parse(words));
    const auto all = channel.gather(report(outcome));
    if (channel.place().rank != 0) continue;
    nlohmann::json reply = merge(all);
    reply["detail"] = outcome.detail;
    std::cout << reply.dump() << std::endl;
  }
}

Outcome measure(AllReduce& side, const Place& place, const Request& request) {
  const std::size_t elements = request.bytes / sizeof(float);
  const auto buffers = side.prepare(elements, request.variant);
  const bool in_place = buffers.input == buffers.output;
  const double factor = in_place ? std::pow(place.ranks, request.iterations - 1) : 1;
  Outcome outcome{.verified = true, .detail = side.detail()};
  for (int block = 0; block < request.blocks; ++block) {
    fill(buffers.input, elements, place.rank);
    outcome.seconds.push_back(side.run(request.iterations));
    outcome.verified = check(buffers.output, elements, place.ranks, factor) && outcome.verified;
  }
  return outcome;
}

}  // namespace taxon::bench
