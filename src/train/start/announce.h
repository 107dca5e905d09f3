#pragma once

#include "train/start/resume.h"

namespace taxon::train {

/// Tells the observer of the run that begins: all ranks' what it is made of, and rank 0's in words what a
/// reader of the plan might not expect, and by which ways its bytes travel.
void announce(TrainContext world, RankGroups ranks, const RunInfo& info, const exchange::Extensions& own);

}  // namespace taxon::train
