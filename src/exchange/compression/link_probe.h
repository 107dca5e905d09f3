#pragma once

#include "codec/codec.h"
#include "comm/collectives.h"
#include "comm/communicator.h"
#include "plan/plan.h"

namespace taxon::exchange {

// What codecs and links really take, through the doors: measured in a real run, modelled in the virtual
// world. Before training, on memory of the probe's own.

/// The unit of its messages: none of a bucket.
inline constexpr std::uint32_t kProbeUnit = 0x40000005;

/// Seconds of one member's work for one exchange of a range.
struct CodecTime {
  double encode = 0;  // of all rounds, with the memory of errors
  double decode = 0;  // of one wire, and what later rounds need
};

/// What this member's links reach while all members send to the next one and get from the one before, and
/// what it takes to sum. Collective. A group of one has nothing to measure.
task::Task<comm::LinkCost> probe_link(comm::Communicator* group);

/// The level's codec on a range of so many values, the mean over the turns of its cycle. Not collective: no
/// message leaves.
task::Task<CodecTime> probe_codec(comm::Communicator* group, const plan::CodecPlan* plan,
                                  codec::Extent extent, const codec::CodecRow* row);

}  // namespace taxon::exchange
