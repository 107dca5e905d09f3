#pragma once

#include <string>
#include <vector>

namespace taxon::app {

/// The words of `taxon schedule`.
struct ScheduleArguments {
  std::string row;  // empty: list what there is
  int stages = 4;
  int micros = 8;
  std::vector<std::string> options;  // KEY=VALUE, of the row
  std::string network;               // that is cut into the stages; empty: unit costs
  std::vector<std::string> network_options;
  int batch = 0;  // samples of all micro-batches; 0: one each
  std::string cluster;
  bool json = false;
};

/// `taxon schedule`: what a schedule of a pipeline does, drawn, with its bubble and memory, to stdout; or an
/// object for programs. The exit code.
int run_schedule(const ScheduleArguments& arguments);

}  // namespace taxon::app
