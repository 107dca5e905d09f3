#pragma once

/// A rule of one's own: how weights change by gradients (optim::Rule), or where replicas meet
/// (optim::OuterRule).
#include "optim/outer.h"
#include "optim/rule.h"
#include "optim/schedule.h"
#include "optim/staleness.h"
