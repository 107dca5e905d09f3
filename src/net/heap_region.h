#pragma once

#include "net/region_table.h"
#include "net/transport.h"

namespace taxon::net {

/// A region of ordinary memory, which peers reach through its owner or in the owner's process: zeroed,
/// aligned, listed in `regions` for as long as it lives. Throws Error{Transport} when memory runs out.
/// REQUIRES: size > 0; `regions` outlives the region.
Region allocate_on_heap(RegionTable& regions, Rank owner, std::size_t size);

}  // namespace taxon::net
