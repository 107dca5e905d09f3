#pragma once

#include <string>

namespace taxon::app {

/// `taxon --version`: the version and what it was built with and runs with, one `name: value` per line.
std::string version_text();
/// The same as one JSON object.
std::string version_json();

}  // namespace taxon::app
