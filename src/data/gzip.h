#pragma once

#include <string>
#include <vector>

#include "base/view.h"

namespace taxon::data {

bool is_gzip(ConstView bytes);
/// The uncompressed content. Throws Error{Data} naming `path` if it is cut short or damaged.
std::vector<std::byte> gunzip(ConstView bytes, const std::string& path);

}  // namespace taxon::data
