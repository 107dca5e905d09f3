#include "apps/taxon/commands/doctor.h"

#include <ostream>

#include "planner/machine.h"

namespace taxon::app {

int run_doctor(const DoctorArguments& arguments, std::ostream& out) {
  auto findings = planner::examine_machine();
  if (arguments.json)
    out << planner::to_json(findings);
  else
    planner::print_findings(findings, out);
  for (const planner::Finding& finding : findings)
    if (finding.verdict == planner::Verdict::Missing) return 1;
  return 0;
}

}  // namespace taxon::app
