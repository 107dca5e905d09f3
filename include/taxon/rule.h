#pragma once

/// A rule of one's own: how weights change by gradients (optim::Rule), by which rates (optim::ScheduleRow),
/// where replicas meet (optim::OuterRule), what becomes of late contributions (optim::StalenessRule), and who
/// waits for whom at servers (exchange::ConsistencyRule).
#include "exchange/consistency/rule.h"
#include "optim/outer.h"
#include "optim/rule.h"
#include "optim/schedule.h"
#include "optim/staleness.h"
