#pragma once

#include <string>
#include <vector>

namespace taxon::app {

/// The words of `taxon codecs`.
struct CodecsArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string link = "1 Gbit/s";
  int workers = 4;
  int steps = 5;
  bool json = false;
};

/// `taxon codecs`: a table of every codec on gradients of the recipe, or an object for programs, to stdout.
/// The exit code.
int run_codecs(const CodecsArguments& arguments);

}  // namespace taxon::app
