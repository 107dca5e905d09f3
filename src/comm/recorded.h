#pragma once

#include "comm/collectives.h"

namespace taxon::comm {

/// Puts one use of a collective into the rank's journal when it ends, also with an error.
class Recorded {
 public:
  /// `name` is static text: "all_reduce ring".
  Recorded(Communicator& group, const char* name, const Call& call)
      : runtime_(group.runtime()),
        span_{"exchange", name, call.unit, call.data.size(), runtime_.executor().now(), {}} {}
  Recorded(const Recorded&) = delete;
  ~Recorded() {
    span_.end = runtime_.executor().now();
    runtime_.journal.add(span_);
  }

 private:
  Runtime& runtime_;
  Span span_;
};

}  // namespace taxon::comm
