#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "codec/codec.h"
#include "exchange/extensions.h"
#include "plan/plan.h"

namespace taxon::exchange {

/// Nominal costs of the two kinds of path. Fixed figures, never live timing: what is chosen must not differ
/// from run to run.
comm::LinkCost nominal_cost(bool shares_memory);

/// The row that serves `shape`: the named one, or for "auto" comm::choose_row() by nominal cost. Throws
/// Error{Usage} if the named row does not exist or does not apply.
const comm::CollectiveRow& choose(net::Operation collective, const std::string& name,
                                  const comm::Shape& shape, std::span<const comm::CollectiveRow> own = {},
                                  comm::Urgency urgency = comm::Urgency::Equal);

/// Decides what hides communication, and names the collectives of every bucket: outward level by level for
/// the sum, then back for what is spread; "none" for a group of one. `shapes`: by level. `own`, here and
/// below: rows beside those of the tables.
void resolve_exchange(plan::Plan& plan, std::span<const LevelShape> shapes, const Extensions& own = {});

/// The rows that a bucket's recorded names mean, by level. Throws Error{Mismatch} if they don't fit the
/// levels: the recording belongs to another plan.
std::vector<LevelAlgorithms> rows_of(const plan::BucketPlan& bucket,
                                     const std::vector<plan::LevelPlan>& levels, const Extensions& own = {});

/// Which of a bucket's recorded collectives sums at the level; as many as there are: none does.
std::size_t place_of_sum(const std::vector<plan::LevelPlan>& levels, std::size_t level,
                         const Extensions& own = {});

/// Bytes of the bucket that a rank owns, at most.
std::size_t bytes_owned(const plan::BucketPlan& bucket, const std::vector<plan::LevelPlan>& levels,
                        std::span<const LevelShape> shapes, const Extensions& own = {});

/// What, beside the bucket and its levels, decides how many bytes travel.
struct Setting {
  std::span<const LevelShape> shapes;         // of the levels
  std::span<const codec::Piece> pieces = {};  // the tensors in the bucket: some codecs' wires depend on them
  Extensions own = {};                        // of the program
  /// How often values travel back, of buckets of that size: once after the update, unless they are gathered
  /// before uses (gathers_per_step()), and then in the type that is computed in.
  double spreads = 1;
};
/// Bytes that a rank sends for the bucket in a step, the mean over ranks and steps.
double bytes_sent(const plan::BucketPlan& bucket, const std::vector<plan::LevelPlan>& levels,
                  const Setting& setting);

}  // namespace taxon::exchange
