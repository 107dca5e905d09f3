#pragma once

#include <cstdint>
#include <string>

namespace taxon::plan {

/// How members move on: all by the same steps; as far apart as a bound allows; or as they like, so that only
/// the count of all samples says how far training is.
enum class Scheduling { InStep, Bounded, Free };

/// What a consistency rule of servers allows at most, for whoever needs to know no more of it than that.
struct ConsistencyBounds {
  static constexpr std::int64_t kUnbounded = -1;
  std::int64_t lead = 0;  // clocks that a worker may be ahead of the common clock; kUnbounded: any number
  int quorum = 0;         // updates go on without those who are slower than so many workers; 0: without none
  int apply = 0;          // contributions of an update, at least; 0: one of every worker
  std::string words = "synchronous";  // its point on the axis of scheduling

  Scheduling scheduling() const {
    if (lead == kUnbounded) return Scheduling::Free;
    return lead == 0 && quorum == 0 && apply == 0 ? Scheduling::InStep : Scheduling::Bounded;
  }
  bool in_step() const { return scheduling() == Scheduling::InStep; }
  bool drops() const { return quorum > 0; }
  /// A worker goes on when an update took in what it handed in last, or nothing ever will: never earlier.
  bool answers_what_it_took() const { return lead == 0 || apply == 1; }
};

}  // namespace taxon::plan
