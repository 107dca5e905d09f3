#pragma once

#include <vector>

#include "exchange/layout/bucket.h"
#include "exchange/levels/levels.h"

namespace taxon::exchange {

/// Says of every bucket what this rank owns, and packs it into shards. A rank that owns everything keeps the
/// layout of the weights.
void own(Layout& layout, const Levels& levels);

/// Gives gradients the memory of a ring: a bucket's place is used again by a later one of the same step. As
/// large as the largest segment's gradients and `in_flight` buckets, so that a segment is computed while that
/// many are on their way, or more if that could not go on. REQUIRES: the backward pass goes through the
/// segments from the last to the first.
void lay_out_ring(Layout& layout, int segments, int in_flight);

/// Weights too are kept in shards, and gathered into places that others' take while those are not used:
/// parameters of segments of which one is at most `ahead` after the other may be there at the same time.
/// REQUIRES: own() came before, and no bucket has parameters of several segments other than by their
/// borrowers.
void keep_parts(Layout& layout, int segments, int ahead);
/// How often a bucket is then gathered in a step whose passes go through the segments forward and back, all
/// micro-batches through one before the next.
int gathers_per_step(const Bucket& bucket, int segments, int ahead);

/// Runs of a bucket's owned elements that belong to slots: what lies between them is padding.
std::vector<Range> owned_values(const Bucket& bucket, const tensor::ArenaLayout& arena);

}  // namespace taxon::exchange
