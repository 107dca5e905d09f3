#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <vector>

namespace taxon::plan {

/// Recipes, clusters and profiles are no larger.
constexpr std::size_t kMostBytes = 1 << 20;

/// The whole file. Throws Error{Usage} with the path and the reason.
std::string read_text(const std::string& path);

/// Calls `read` with the one document of `yaml`, unless it is empty. What is wrong with it as YAML is added
/// to `problems`.
void read_document(const std::string& yaml, const std::string& origin, std::vector<std::string>& problems,
                   const std::function<void(const YAML::Node&)>& read);

}  // namespace taxon::plan
