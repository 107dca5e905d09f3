#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace taxon::planner {

enum class Verdict { Good, Poor, Missing };

/// One thing that training depends on, as it is on this machine.
struct Finding {
  std::string subject;  // "BLAS", "/dev/shm"
  std::string value;    // what is there, with units
  Verdict verdict = Verdict::Good;
  std::string advice;  // what to do; empty when good
};

/// Looks at the machine: about a second, one core of which multiplies matrices. One or more findings per
/// subject, in a fixed order; never throws for what it can't find.
std::vector<Finding> examine_machine();

/// One line per finding, and its advice below it.
void print_findings(const std::vector<Finding>& findings, std::ostream& out);

/// An object with `findings`, a list of objects with `subject`, `value`, `verdict` (good, poor, missing) and
/// `advice`.
std::string to_json(const std::vector<Finding>& findings);

}  // namespace taxon::planner
