#include "comm/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace taxon::comm {

std::string describe_ranks(std::span<const Rank> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1].value() == ranks[last].value() + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last > i ? fmt::format("{} to {}", ranks[i].value(), ranks[last].value())
                     : std::to_string(ranks[i].value());
    i = last + 1;
  }
  return (ranks.size() > 1 ? "ranks " : "rank ") + text;
}

std::string describe_paths(const net::Transport& transport, std::span<const Rank> ranks) {
  std::vector<std::pair<std::string, std::vector<Rank>>> ways;
  for (const Rank rank : ranks) {
    if (rank == transport.rank()) continue;
    const std::string name = transport.path(rank).name;
    auto found = std::find_if(ways.begin(), ways.end(), [&](const auto& way) { return way.first == name; });
    if (found == ways.end()) found = ways.insert(ways.end(), {name, {}});
    found->second.push_back(rank);
  }
  if (ways.size() == 1) return ways[0].first;
  std::string text;
  for (const auto& [name, to] : ways)
    text += fmt::format("{}{} to {}", text.empty() ? "" : "; ", name, describe_ranks(to));
  return text;
}

}  // namespace taxon::comm
