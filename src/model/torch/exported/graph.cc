#include "model/torch/exported/graph.h"

#include <fmt/format.h>

#include <string_view>

namespace taxon::model::exported {

std::string operator_name(const Node& node) {
  constexpr std::string_view kPrefix = "torch.ops.";
  return node.target.starts_with(kPrefix) ? node.target.substr(kPrefix.size()) : node.target;
}

std::string place_of(const Node& node) {
  return fmt::format("operator {} at node {}{}", operator_name(node), node.name.empty() ? "?" : node.name,
                     node.place.empty() ? "" : " (" + node.place + ")");
}

}  // namespace taxon::model::exported
