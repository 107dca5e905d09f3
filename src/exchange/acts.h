#pragma once

#include <cstdint>
#include <vector>

namespace taxon::exchange {

/// One thing that a server did. What training comes to follows from these and their order alone, unit by
/// unit: who computed how fast shows nowhere else.
struct Act {
  enum class Kind : std::uint8_t {
    Admit,   // a contribution came and counts
    Drop,    // a contribution came too late
    Repeat,  // a contribution came again, and counts no more than it did
    Update,  // an update begins; `number`: updates before it
    Apply,   // a contribution goes into that update
    Answer,  // a worker gets values and may go on; `number`: updates before that
    Pause,   // a worker counts nowhere until it hands in again; `number`: pauses of its before
    Lose,    // a worker is gone for good
  };
  Kind kind = Kind::Admit;
  std::int32_t unit = 0;
  std::int32_t worker = 0;
  std::int64_t number = 0;  // of contributions: what the worker handed in for the unit before
  friend bool operator==(const Act&, const Act&) = default;
};

/// Of one server, in their order.
using Acts = std::vector<Act>;

}  // namespace taxon::exchange
