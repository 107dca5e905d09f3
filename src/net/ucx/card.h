#pragma once

#include <cstdint>
#include <vector>

#include "base/view.h"

namespace taxon::net {

/// What a rank tells its peers before the first message.
struct Card {
  std::uint64_t nonce = 0;         // stands in its signal page too
  std::vector<std::byte> all;      // worker address with every device
  std::vector<std::byte> network;  // worker address with network devices only
  std::vector<std::byte> page;     // packed RemoteRegion of its signal page

  std::vector<std::byte> pack() const;
  /// Throws Error{Mismatch} when the bytes are not a card of this wire version.
  static Card unpack(ConstView bytes);
};

}  // namespace taxon::net
