#pragma once

#include "exchange/compression/factors.h"
#include "exchange/layout/bucket.h"
#include "exchange/levels/levels.h"
#include "model/model.h"
#include "plan/plan.h"

namespace taxon::train {

/// The trainable parameters in the order in which a divided model completes them.
std::vector<int> backwards(const model::ModelSpec& spec);
/// These parameters as they are cut into buckets; `in_parts`: those of several segments share none, so that
/// each segment's are gathered alone.
std::vector<exchange::Tensor> tensors_of(const model::ModelSpec& spec, const std::vector<int>& parameters,
                                         bool in_parts);

/// The buckets of a run that starts fresh and completes the parameters in that order.
std::vector<plan::BucketPlan> cut_buckets(const model::ModelSpec& spec, const std::vector<int>& parameters,
                                          const plan::Plan& plan, exchange::FactorGroup factors,
                                          const exchange::Extensions& own);

/// How the model's trainable parameters lie in this rank's arenas: in the buckets of `plan`, which is
/// resolved, with what of them the rank owns on `levels`. `own`: rows beside those of the tables. Throws
/// Error{Usage} if gradients are to lie in a ring and the model's backward pass can't be taken in pieces.
exchange::Layout lay_out(const plan::Plan& plan, const model::ModelSpec& spec, const exchange::Levels& levels,
                         const exchange::Extensions& own);

}  // namespace taxon::train
