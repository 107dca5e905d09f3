#pragma once

/// Clusters as data: hosts, devices and links of a simulation, from a cluster file.
#include "plan/cluster.h"
