#pragma once

/// What the ranks of a pipeline do in a step, as data, and a schedule of one's own: its row
/// (program::ScheduleRow, made by program::schedule_row()), what is wrong with its programs, when everything
/// happens, and the picture.
#include "program/check.h"
#include "program/rows/order.h"
#include "program/schedule.h"
#include "program/timeline.h"
