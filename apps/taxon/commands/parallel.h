#pragma once

#include <string>
#include <vector>

namespace taxon::app {

/// The words of `taxon parallel`.
struct ParallelArguments {
  std::string network;  // empty: list what there is
  int workers = 0;      // 0: as many as the cluster has places, or 1 without one
  int batch = 0;        // 0: as published
  double overlap = 0;
  std::vector<std::string> options;  // KEY=VALUE, of the network
  std::string cluster;
  bool json = false;
};

/// `taxon parallel`: how each layer of a network is best divided over workers, as a table that says why, to
/// stdout; or an object for programs. The exit code.
int run_parallel(const ParallelArguments& arguments);

}  // namespace taxon::app
