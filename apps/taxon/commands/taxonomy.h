#pragma once

#include <string>
#include <vector>

namespace taxon::app {

struct TaxonomyArguments {
  std::vector<std::string> recipes;  // files; none: the points alone
  std::string row;                   // not empty: this row's page in place of the axes
  bool json = false;
};

/// `taxon taxonomy`: on stdout every axis with the points on it, then where each recipe stands; or
/// what the rows of one name say of themselves. The exit code.
int run_taxonomy(const TaxonomyArguments& arguments);

}  // namespace taxon::app
