#pragma once

/// A split of layers over the members of a tensor axis of one's own: its row (parallel::SplitRow), which says
/// how a layer's weights, activations and gradients lie, and for layers of one's own the rows that these can
/// be split by (parallel::LayerKind). They go along with a plan in Extensions.
#include "parallel/layer_kind.h"
#include "parallel/split.h"
