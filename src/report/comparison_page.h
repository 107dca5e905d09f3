#pragma once

#include <string>
#include <vector>

#include "report/comparison.h"

namespace taxon::report {

/// The comparison as one HTML file that needs nothing else: tables that sort, curves, where a step's time
/// goes, staleness, and timelines. Light or dark as the reader's system is; without scripts nothing but
/// sorting and the switching off of curves is lost.
std::string to_page(const Comparison& comparison);

/// The page's learning curves as files of their own, for papers and slides.
struct Picture {
  std::string name;  // "accuracy-time"
  std::string svg;
};
std::vector<Picture> to_pictures(const Comparison& comparison);

}  // namespace taxon::report
