#pragma once

#include <chrono>

namespace taxon::control {

/// How patient a job is. The same on every rank; they come from the plan.
struct Timeouts {
  std::chrono::milliseconds join{std::chrono::minutes(5)};       // until all ranks are there
  std::chrono::milliseconds silence{std::chrono::seconds(5)};    // until a silent rank is reported
  std::chrono::milliseconds peer{std::chrono::minutes(10)};      // until a silent rank ends the run
  std::chrono::milliseconds hang{std::chrono::seconds(8)};       // until a wait is reported as a hang
  std::chrono::milliseconds heartbeat{std::chrono::seconds(1)};  // between signs of life
  std::chrono::milliseconds progress{std::chrono::seconds(3)};   // between lines about a wait
};

}  // namespace taxon::control
