#include "parallel/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace taxon::parallel {

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (std::int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    found.push_back(static_cast<int>(i));
    if (i * i < number) found.push_back(static_cast<int>(number / i));
  }
  std::sort(found.begin(), found.end());
  return found;
}

double exchanged_bytes(const Layer& layer, const BalanceInput& input, int groups) {
  const double n = input.workers, g = groups;
  double bytes = 0;
  if (groups < input.workers)
    bytes +=
        2 * input.element_bytes * static_cast<double>(layer.exchanged) * static_cast<double>(input.batch) / g;
  if (groups > 1)
    bytes += input.element_bytes * static_cast<double>(layer.weights) * (2 - input.overlap) * g / n;
  return bytes;
}

bool is_possible(const Layer& layer, const BalanceInput& input, int groups) {
  return input.workers / groups <= layer.ways && groups <= input.batch;
}

std::vector<std::string> balance_problems(const Network& network, const BalanceInput& input) {
  std::vector<std::string> problems;
  if (input.workers < 1)
    problems.push_back(fmt::format("workers must be at least 1, but are {}", input.workers));
  if (input.batch < 1)
    problems.push_back(fmt::format("the batch must have a sample, but has {}", input.batch));
  if (!(input.overlap >= 0 && input.overlap <= 1))
    problems.push_back(fmt::format("overlap must be from 0 to 1, but is {}", input.overlap));
  if (!problems.empty()) return problems;
  const std::vector<int> groups = divisors(input.workers);
  for (const Layer& layer : network.layers)
    if (std::none_of(groups.begin(), groups.end(), [&](int g) { return is_possible(layer, input, g); }))
      problems.push_back(
          fmt::format("layer {} cannot be given to {} workers: a batch of {} feeds at most {} groups, and it "
                      "can be split into at most {} parts",
                      layer.name, input.workers, input.batch, input.batch, layer.ways));
  return problems;
}

/// Of `candidates` the possible one with the fewest bytes; of equal ones the most groups, which split less.
static int best_of(const Layer& layer, const BalanceInput& input, const std::vector<int>& candidates) {
  int best = 0;
  for (int groups : candidates)
    if (is_possible(layer, input, groups) &&
        (best == 0 || exchanged_bytes(layer, input, groups) <= exchanged_bytes(layer, input, best)))
      best = groups;
  return best;
}

static Split split_of(int groups, int workers) {
  if (groups == workers) return Split::Data;
  return groups == 1 ? Split::Model : Split::Hybrid;
}

std::vector<LayerBalance> balance(const Network& network, const BalanceInput& input) {
  if (const auto problems = balance_problems(network, input); !problems.empty())
    throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n")));
  const std::vector<int> all = divisors(input.workers);
  std::vector<LayerBalance> lines;
  for (const Layer& layer : network.layers) {
    LayerBalance line{.layer = &layer,
                      .flops = training_flops(layer) * static_cast<double>(input.batch) / input.workers};
    if (layer.weights == 0) {
      line.split = lines.empty() ? Split::Replicated : lines.back().split;
      line.groups = line.rounded_groups = lines.empty() ? input.workers : lines.back().groups;
      line.bytes = exchanged_bytes(layer, input, line.groups);  // of weights that are another layer's
      lines.push_back(line);
      continue;
    }
    line.data_bytes = exchanged_bytes(layer, input, input.workers);
    line.model_bytes = exchanged_bytes(layer, input, 1);
    line.ideal_groups = std::sqrt(2 * static_cast<double>(layer.exchanged) * input.workers *
                                  static_cast<double>(input.batch) /
                                  (static_cast<double>(layer.weights) * (2 - input.overlap)));
    const auto above = std::lower_bound(all.begin(), all.end(), line.ideal_groups);
    std::vector<int> around;
    if (above != all.begin()) around.push_back(*std::prev(above));
    if (above != all.end()) around.push_back(*above);
    line.rounded_groups = best_of(layer, input, around);
    line.groups = best_of(layer, input, all);
    line.bytes = exchanged_bytes(layer, input, line.groups);
    line.split = split_of(line.groups, input.workers);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace taxon::parallel
