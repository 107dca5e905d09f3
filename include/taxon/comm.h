#pragma once

#include "comm/collectives.h"
#include "comm/communicator.h"
#include "comm/sum.h"
#include "comm/tensors/dynamic.h"
#include "comm/tensors/static.h"
#include "net/loopback/loopback.h"
#include "task/poll_loop.h"
#include "task/scope.h"
#include "tensor/arena.h"
#include "tensor/cpu_device.h"

/// Groups of ranks, their collectives, and channels of tensors; and what puts several ranks into one process.
namespace taxon {

using comm::Communicator;
using task::Task;

}  // namespace taxon
