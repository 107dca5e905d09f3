#pragma once

#include <map>
#include <string>

#include "model/torch/exported/graph.h"

namespace taxon::model::exported {

// Both throw Error{Data} in words that follow the file's name.

/// The text of models/NAME.json. Refuses another major version of the schema, other dialects, and what
/// graph.h has no words for, each with its node and operator.
Graph parse_graph(const std::string& text);
/// The text of data/weights/NAME_weights_config.json or data/constants/NAME_constants_config.json, whose
/// members lie in `folder`.
std::map<std::string, Payload> parse_payloads(const std::string& text, const std::string& folder);

}  // namespace taxon::model::exported
