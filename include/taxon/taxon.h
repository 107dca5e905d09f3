#pragma once

/// All of Taxon.
#include "base/version.h"
#include "taxon/cluster.h"
#include "taxon/codec.h"
#include "taxon/comm.h"
#include "taxon/dataset.h"
#include "taxon/error.h"
#include "taxon/job.h"
#include "taxon/model.h"
#include "taxon/observer.h"
#include "taxon/plan.h"
#include "taxon/program.h"
#include "taxon/rule.h"
#include "taxon/simulate.h"
#include "taxon/split.h"
#include "taxon/topology.h"
#include "taxon/train.h"
