#pragma once

#include "exchange/levels/topology.h"

namespace taxon::exchange {

/// Gradients are combined by how much they agree (Adasum: Maleki et al., MLSys 2021), two and two:
///   A(a, b) = (1 - a.b / 2 a.a) a + (1 - a.b / 2 b.b) b,
/// the sum of what is orthogonal and the mean of what is parallel. Contributions are parts of a mean, each a
/// member's gradient over the number of members; the result is A of the gradients themselves. Dot products
/// are over a unit: a bucket, or what inner levels own of it. REQUIRES: a power of two of members; otherwise
/// the constructor throws Error{Usage}.
std::unique_ptr<Topology> make_adasum(comm::Communicator& group, TopologyContext context);

}  // namespace taxon::exchange
