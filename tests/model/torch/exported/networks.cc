#include "model/torch/exported/networks.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace taxon::model::exported {
namespace {

using nlohmann::json;

std::vector<Reference::Summary> summaries(const json& values) {
  std::vector<Reference::Summary> list;
  for (const auto& [name, value] : values.items())
    list.push_back({name, value[0].get<double>(), value[1].get<double>(), value[2].get<double>()});
  return list;
}

}  // namespace

std::string path_of(const std::string& name) { return std::string(TAXON_NETWORKS) + "/" + name; }

std::vector<Reference> references() {
  std::vector<Reference> list;
  const json all = json::parse(std::ifstream(path_of("expected.json")));
  for (const auto& [name, value] : all.items()) {
    Reference reference{.name = name, .path = path_of(name + ".pt2")};
    for (const json& input : value["inputs"])
      reference.inputs.push_back({input["shape"].get<std::vector<long>>(), input["below"].get<long>()});
    reference.rate = value["rate"];
    reference.is_double = value["double"];
    reference.evaluation = value["evaluation"];
    reference.is_random = !value.contains("loss");
    if (!reference.is_random) {
      reference.loss = value["loss"];
      reference.trained = value["trained"];
      reference.gradients = summaries(value["gradients"]);
      reference.buffers = summaries(value["buffers"]);
    }
    list.push_back(std::move(reference));
  }
  return list;
}

}  // namespace taxon::model::exported
