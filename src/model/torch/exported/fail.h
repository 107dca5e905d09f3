#pragma once

#include <string>

#include "base/error.h"

namespace taxon::model::exported {

/// What stands in an exported file can't be had, and why.
/// @throws Error of kind Data.
[[noreturn]] inline void fail(const std::string& why) { throw Error(ErrorKind::Data, why); }

}  // namespace taxon::model::exported
