#include "parallel/network.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/problems.h"
#include "plan/nearest.h"

namespace taxon::parallel {

std::int64_t parameters(const Network& network) {
  std::int64_t sum = 0;
  for (const Layer& layer : network.layers) sum += parameters(layer);
  return sum;
}

double forward_macs(const Network& network) {
  double sum = 0;
  for (const Layer& layer : network.layers) sum += layer.macs;
  return sum;
}

double training_flops(const Network& network) { return 6 * forward_macs(network); }

const NetworkRow& find_network(std::string_view name) {
  std::vector<std::string> names;
  for (const NetworkRow& row : network_table()) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  const auto meant = plan::nearest(name, names);
  throw Error(ErrorKind::Usage, fmt::format("there is no network \"{}\"{}", name,
                                            meant ? plan::suggestion(meant)
                                                  : fmt::format("; there are {}", fmt::join(names, ", "))));
}

Network make_network(const NetworkRow& row, const plan::Options& options) {
  Problems problems;
  const std::vector<plan::OptionKey> keys = row.options();
  std::vector<std::string> names;
  for (const plan::OptionKey& key : keys) names.push_back(key.key);
  for (const auto& [given, text] : options.given()) {
    const auto found = std::find(names.begin(), names.end(), given);
    if (found == names.end())
      problems.add(fmt::format("{} is no key of network {}{}", given, row.name,
                               plan::suggestion(plan::nearest(given, names))));
    else if (const plan::OptionKey& key = keys[static_cast<std::size_t>(found - names.begin())];
             !key.canonical(text))
      problems.add(fmt::format("{} must be {}, but is {}", given, key.allowed, text));
  }
  problems.require_none();
  return row.make(options);
}

}  // namespace taxon::parallel
