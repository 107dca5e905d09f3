#pragma once

#include "base/time.h"

namespace taxon::net {

inline Instant at(Duration since_start) { return Instant(since_start); }

}  // namespace taxon::net
