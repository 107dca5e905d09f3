#pragma once

#include "job/job.h"

/// This process as one rank of its launcher's job.
namespace taxon {

using job::Job;
using job::JobOptions;

}  // namespace taxon
