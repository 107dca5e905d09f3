#pragma once

namespace taxon::sim {

/// What a world spends memory and arithmetic on.
enum class Fidelity {
  Exact,   // real buffers, bodies run: results equal those of the loopback transport bit for bit
  Timing,  // large regions are phantoms, and bodies that touch payloads don't run
  Coarse,  // the same, and a collective is one event: sim/coarse.h
};

}  // namespace taxon::sim
