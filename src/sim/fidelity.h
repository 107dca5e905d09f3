#pragma once

namespace taxon::sim {

/// What a world spends memory and arithmetic on.
enum class Fidelity {
  Exact,   // real buffers, bodies run: results equal those of the loopback transport bit for bit
  Timing,  // large regions are phantoms, and bodies that touch payloads don't run
};

/// How collectives are carried out, in either fidelity.
enum class Collectives {
  StepByStep,  // by their rows' own steps: every message
  Coarse,  // one event each, at the time that their steps would take: for thousands of ranks (sim/coarse.h)
};

}  // namespace taxon::sim
