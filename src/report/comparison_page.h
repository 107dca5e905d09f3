#pragma once

#include <string>

#include "report/comparison.h"

namespace taxon::report {

/// The comparison as one HTML file that needs nothing else: tables that sort, curves, where a step's time
/// goes, staleness, and timelines. Light or dark as the reader's system is; without scripts nothing but
/// sorting and the switching off of curves is lost.
std::string to_page(const Comparison& comparison);

}  // namespace taxon::report
