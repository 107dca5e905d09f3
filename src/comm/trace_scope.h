#pragma once

#include "comm/collectives.h"

namespace taxon::comm {

/// Puts one use of a collective into the rank's recorder when it ends, also with an error.
class TraceScope {
 public:
  /// `name` is static text: "all_reduce ring".
  TraceScope(Communicator& group, const char* name, const Call& call)
      : runtime_(group.runtime()),
        span_{"exchange", name, call.unit, call.data.size(), runtime_.executor().now(), {}} {}
  TraceScope(const TraceScope&) = delete;
  ~TraceScope() {
    span_.end = runtime_.executor().now();
    runtime_.recorder.add(span_);
  }

 private:
  Runtime& runtime_;
  Span span_;
};

}  // namespace taxon::comm
