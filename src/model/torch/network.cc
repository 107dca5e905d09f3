#include "model/torch/network.h"

#include <fmt/format.h>

#include <algorithm>

namespace taxon::model {

int Network::stage_of(const std::string& tensor) const {
  const std::vector<std::string> names = stages();
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return tensor == name || tensor.starts_with(name + ".");
  });
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

NetworkSplit Network::split(Splitter splitter) {
  throw Error(ErrorKind::Usage,
              fmt::format("model {} can't be divided over {} members: it does not know its layers; choose "
                          "another model, or a tensor axis of 1",
                          splitter.model(), splitter.members()));
}

}  // namespace taxon::model
