#pragma once

#include "base/check.h"

namespace taxon::comm {

/// Says that a coroutine is inside, for as long as it lives: the ends of tensor channels number what they do,
/// so only one may be.
class Alone {
 public:
  Alone(bool& inside, const char* where) : inside_(inside) {
    TAXON_CHECK(!inside, "two coroutines at a time in ", where);
    inside_ = true;
  }
  Alone(const Alone&) = delete;
  ~Alone() { inside_ = false; }

 private:
  bool& inside_;
};

}  // namespace taxon::comm
