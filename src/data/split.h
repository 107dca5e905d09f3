#pragma once

#include "data/dataset.h"

namespace taxon::data {

/// The data sets of a run: the last `plan.data.validation` training samples are set aside, and `test` is what
/// evaluations read: these, or the test set, as `plan.evaluation.split` says. Throws as open_datasets(), and
/// Error{Usage} where no sample is left to train on.
Datasets open_split(const plan::Plan& plan, const Storage& storage);

}  // namespace taxon::data
