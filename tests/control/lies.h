#pragma once

#include "support/strange_json.h"

namespace taxon::control {

using test::Draw;

// Messages that are almost right, or nothing at all, from a rank that knows the secret: rank 0 and the other
// ranks go on or name the liar, and nothing aborts, grows without bound or waits for ever. Throw
// std::logic_error where that is not so.

/// Rank 2 of 3 lies to rank 0, which blames nobody else and goes on with rank 1.
void lie_to_rank_zero(const Draw& draw);
/// Ranks lie in what they say first: they are turned away, or the join ends.
void lie_in_first_messages(const Draw& draw);
/// Rank 0 lies to a rank that joins, or has joined.
void lie_as_rank_zero(const Draw& draw);

}  // namespace taxon::control
