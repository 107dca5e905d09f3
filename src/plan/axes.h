#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "plan/catalogue.h"
#include "plan/plan.h"

namespace taxon::plan {

/// Where a run stands on the five axes of distributed training, in words of at most a few syllables.
struct Axes {
  std::string parallelism;    // what is split
  std::string optimisation;   // who owns parameters and optimiser state
  std::string scheduling;     // when a worker may proceed
  std::string communication;  // who talks to whom
  std::string compression;    // what travels
  friend bool operator==(const Axes&, const Axes&) = default;
};

/// The axes' names with the points of `axes`, in the order of the struct.
std::array<std::pair<std::string_view, std::string>, 5> by_name(const Axes& axes);

/// The place of a plan, in the words of the rows that it names. One that a run has resolved is told more
/// exactly: by its collectives.
Axes axes_of(const Plan& plan, const Catalogue& catalogue);

}  // namespace taxon::plan
