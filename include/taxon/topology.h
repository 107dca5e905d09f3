#pragma once

/// A topology of one's own: how the members of a level meet. Its row, and those of other axes, go along with
/// a plan in exchange::Extensions.
#include "comm/kernels.h"
#include "comm/scratch.h"
#include "exchange/extensions.h"
#include "exchange/levels/algorithm_selection.h"
#include "exchange/levels/topology.h"
