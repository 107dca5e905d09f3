#pragma once

#include "comm/communicator.h"

namespace taxon::planner {

/// The way from one rank to another, as its two ends saw it. Times in seconds, rates in bytes per second.
struct LinkFigures {
  int from = 0, to = 0;
  bool shares_memory = false;
  double half_round_trip = 0;                // of a message of a few bytes
  double signal = 0;                         // the same of a signal; 0: not measured, between hosts
  double interval = 0;                       // between small messages that are sent one after the other
  double bandwidth = 0;                      // of a stream in this direction
  double both_ways = 0;                      // of each direction, while both are streaming
  double burst = 0;                          // bytes that passed at once after a pause
  double buffered = 0;                       // bytes of sends that were done at once
  double send_time = 0, receive_time = 0;    // processor time of a small message
  double send_speed = 0, receive_speed = 0;  // bytes per second of processor time, in a stream; 0: unknown
  double fragment = 0;                       // bytes of the pieces that the transport sends
};

/// Collective over the group's members `first` and `second`; the others do nothing. Both get the same
/// figures, of the way from `first` to `second`. Takes about a second between hosts. `seconds`: of each
/// stream.
task::Task<LinkFigures> probe_link(comm::Communicator* group, int first, int second, double seconds);

/// Collective over all members: each sends to the next one and receives from the one before, all at once and
/// in more memory than caches hold. Seconds of processor time that a byte that was sent and one that was
/// received took together at this member. `bandwidth`: of the slowest of these ways, bytes per second;
/// `seconds`: of the stream, about. REQUIRES: two members or more.
task::Task<double> probe_crowd(comm::Communicator* group, double bandwidth, double seconds);

}  // namespace taxon::planner
