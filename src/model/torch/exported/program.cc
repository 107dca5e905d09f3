#include "model/torch/exported/program.h"

#include <fmt/format.h>

#include "model/torch/exported/archive.h"
#include "model/torch/exported/fail.h"
#include "model/torch/exported/graph_json.h"
#include "model/torch/exported/weights.h"

namespace taxon::model::exported {
namespace {

constexpr const char* kModels = "models/";
constexpr const char* kWeights = "data/weights/";
constexpr const char* kConstants = "data/constants/";

/// The one program's name in the archive.
std::string name_in(const Archive& archive) {
  if (!archive.find("archive_format") || archive.text("archive_format") != "pt2")
    fail("is no archive of torch.export.save of PyTorch 2.9 or newer");
  if (archive.find("byteorder") && archive.text("byteorder") != "little")
    fail("was written on a big-endian machine");
  const std::vector<std::string> models = archive.names(kModels);
  if (models.size() != 1) fail(fmt::format("holds {} programs rather than one", models.size()));
  const std::string name = models[0].substr(std::string(kModels).size());
  const std::size_t dot = name.rfind(".json");
  if (dot == std::string::npos || dot + 5 != name.size())
    fail(fmt::format("holds {}, which is no graph", models[0]));
  return name.substr(0, dot);
}

}  // namespace

Program read_program(const std::string& path) {
  const Archive archive(path);
  const std::string name = name_in(archive);
  const std::string table = fmt::format("{}{}_weights_config.json", kWeights, name);
  if (!archive.find(table))
    fail("has no table of its weights, as PyTorch before 2.9 wrote it: export it with PyTorch 2.9 or newer");
  auto payloads = parse_payloads(archive.text(table), kWeights);
  payloads.merge(
      parse_payloads(archive.text(fmt::format("{}{}_constants_config.json", kConstants, name)), kConstants));
  Program program{.graph = parse_graph(archive.text(fmt::format("{}{}.json", kModels, name)))};
  Weights weights(archive, payloads);
  for (Input& input : program.graph.inputs) {
    if (input.kind == Input::Kind::User || input.kind == Input::Kind::Unused) continue;
    const at::Tensor tensor = weights.at(input.target);
    program.stored.push_back(tensor);
    switch (input.kind) {
      case Input::Kind::Parameter:
        program.parameters.push_back({input.target, tensor});
        input.trained = tensor.requires_grad();
        break;
      case Input::Kind::Buffer:
        program.buffers.push_back({input.target, tensor, input.persistent});
        break;
      default:
        program.constants.push_back(tensor);
    }
  }
  return program;
}

}  // namespace taxon::model::exported
