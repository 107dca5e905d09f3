#pragma once

#include "job/job.h"
#include "launch/heap.h"
#include "launch/openblas.h"

/// This process as one rank of its launcher's job.
namespace taxon {

using job::Job;
using job::JobOptions;
using launch::choose_openblas_kernels;
using launch::tune_heap;

}  // namespace taxon
