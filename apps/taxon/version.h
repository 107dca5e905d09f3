#pragma once

#include <string>

namespace taxon::app {

/// `taxon --version`: the version and what it was built with and runs with, one `name: value` per line.
std::string version_text();
/// The same as one JSON object.
std::string version_json();
/// "0.1.0": what ranks of one job must have in common, and what outputs record.
std::string version_number();

}  // namespace taxon::app
