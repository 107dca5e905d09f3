#pragma once

/// What is trained on: a data set of the table, a format or a transform of one's own as a row
/// (data::OwnRows), or a class of one's own that implements data::Dataset.
#include "data/blobs.h"
#include "data/dataset.h"
#include "data/memory_storage.h"
#include "data/split.h"

namespace taxon {

using data::Dataset;
using data::Datasets;

}  // namespace taxon
