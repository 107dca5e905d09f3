#pragma once

#include <iosfwd>

namespace taxon::app {

/// The words of `taxon doctor`.
struct DoctorArguments {
  bool json = false;
};

/// `taxon doctor`. The exit code: 0, or 1 if something is missing.
int run_doctor(const DoctorArguments& arguments, std::ostream& out);

}  // namespace taxon::app
