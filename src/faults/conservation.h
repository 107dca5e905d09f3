#pragma once

#include <optional>
#include <string>

#include "data/storage.h"
#include "faults/simulated_run.h"

namespace taxon::faults {

/// Where replicas meet by averaging, by gossip or at an elastic centre, meetings move nothing in sum: what
/// replicas and centre differ by from their beginning is what the local steps did. From the last checkpoint
/// of a complete run and from what the witnesses saw; a sentence if it is not so, nothing if it is, or if the
/// plan does not promise it (other rules, codecs, answers that come late, local steps that are not plain
/// SGD).
std::optional<std::string> check_sums(const plan::Plan& plan, const SimulatedRun& seen,
                                      const data::Storage& storage);

}  // namespace taxon::faults
