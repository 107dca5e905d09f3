#pragma once

#include <string>

#include "base/error.h"

namespace taxon::comm {

/// Error{Mismatch} for a value that rank `from` told in `operation` and that no rank of this job may tell:
/// the rank runs another version or plan, or its memory or the way from it is damaged. What comes from
/// outside is answered with this, never with a TAXON_CHECK, which is about this process alone
/// (docs/wire_format.md lists every such value with its bounds).
Error told_wrong(Rank from, const std::string& operation, const std::string& what);

/// The largest count (of steps, samples, turns, ...) that a rank is believed: float64 holds it exactly, and
/// sums of a few don't overflow.
inline constexpr std::int64_t kMostTold = std::int64_t{1} << 53;
/// True if `count` is one: not negative, and no larger.
constexpr bool is_count(std::int64_t count) { return count >= 0 && count <= kMostTold; }
/// The same of counts that travel as float64: a whole number, and no NaN.
constexpr bool is_count(double count) {
  return count >= 0 && count <= static_cast<double>(kMostTold) &&
         static_cast<double>(static_cast<std::int64_t>(count)) == count;
}

}  // namespace taxon::comm
