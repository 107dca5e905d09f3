#pragma once

#include <memory>

#include "exchange/levels/topology.h"

namespace taxon::exchange {

/// What a member sends of a way of `count` elements: positions and values of the entries that are not 0, or
/// all values where that is less. The bytes of the two arrays; `entries` is how many are not 0.
std::size_t significant_bytes(std::size_t count, std::size_t entries, std::size_t element);

}  // namespace taxon::exchange
