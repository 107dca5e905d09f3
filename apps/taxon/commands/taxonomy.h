#pragma once

#include <string>
#include <vector>

namespace taxon::app {

struct TaxonomyArguments {
  std::vector<std::string> recipes;  // files; none: the points alone
  bool json = false;
};

/// `taxon taxonomy`: on stdout every axis with the points on it, then where each recipe stands. The exit
/// code.
int run_taxonomy(const TaxonomyArguments& arguments);

}  // namespace taxon::app
