#pragma once

#include "data/dataset.h"
#include "data/transform.h"

namespace taxon::data {

/// Rows of a program's own beside those of the tables, and found before them.
struct OwnRows {
  std::span<const DatasetRow> datasets = {};
  std::span<const TransformRow> transforms = {};
};

/// The data sets of a run, transformed: samples that the plan sets aside for validation are not in `train`,
/// and `test` is what evaluations read: these, or the test set, as `plan.evaluation.split` says. `storage`
/// outlives them. Throws as open_datasets(), and Error{Usage} where no sample is left to train on, none is
/// there to evaluate, or a row of one's own lacks its name or its function; Error{Data} where faulty samples
/// are the reason.
Datasets open_split(const plan::Plan& plan, const Storage& storage, const OwnRows& own = {});

}  // namespace taxon::data
