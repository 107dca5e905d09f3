#include "codec/feedback.h"

#include <cmath>

#include "codec/scan.h"

namespace taxon::codec {

void Feedback::encode(std::span<float> gradient, Memory memory, View wire, const Use& use) const {
  if (!all_finite(gradient, use.path)) {
    codec_.encode(0, gradient, wire, Rest::Stay, use);
    return;
  }
  if (memory.errors.empty()) {
    // Only signs count, so velocities need no factor 1 - momentum (Bernstein et al. 2018, Signum).
    add_with_momentum(gradient, options_.momentum, memory.velocity, use.path);
    if (codec_.encode(0, memory.velocity, wire, Rest::Stay, use)) return;
  } else {
    if (memory.velocity.empty())
      add(gradient, memory.errors, use.path);
    else
      add_with_momentum(gradient, options_.momentum, memory.velocity, memory.errors, use.path);
    const bool at_once = codec_.settles() == Settles::Encoded;
    if (codec_.encode(0, memory.errors, wire, at_once ? Rest::Keep : Rest::Stay, use)) {
      if (at_once && masks(memory)) codec_.clear(wire, memory.velocity, use);
      return;
    }
  }
  // Finite numbers had an infinite sum. They are lost, which the wire says; the memory goes on.
  for (std::span<float> values : {memory.errors, memory.velocity})
    for (float& value : values)
      if (!std::isfinite(value)) value = 0;
}

void Feedback::delivered(ConstView wire, Memory memory, const Use& use) const {
  if (codec_.settles() == Settles::Encoded) return;
  codec_.settle(wire, memory.errors, use);
  if (masks(memory)) codec_.clear(wire, memory.velocity, use);
}

}  // namespace taxon::codec
