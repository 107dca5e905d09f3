#include "codec/feedback.h"

#include <algorithm>
#include <cmath>

#include "codec/scan.h"

namespace taxon::codec {

void Feedback::encode(std::span<float> gradient, Memory memory, View wire,
                      const CodecContext& context) const {
  if (!all_finite(gradient, context.isa)) {
    codec_.encode(0, gradient, wire, Residual::Stay, context);
    return;
  }
  if (estimates()) return encode_difference(gradient, memory.errors, wire, context);
  if (memory.errors.empty()) {
    // Only signs count, so velocities need no factor 1 - momentum (Bernstein et al. 2018, Signum).
    add_with_momentum(gradient, options_.momentum, memory.velocity, context.isa);
    if (codec_.encode(0, memory.velocity, wire, Residual::Stay, context)) return;
  } else {
    if (memory.velocity.empty() && options_.decay == 1)
      add(gradient, memory.errors, context.isa);
    else if (memory.velocity.empty())
      add_with_momentum(gradient, options_.decay, memory.errors, context.isa);
    else
      add_with_momentum(gradient, options_.momentum, memory.velocity, memory.errors, context.isa);
    const bool at_once = codec_.residual_timing() == ResidualTiming::Encoded;
    if (codec_.encode(0, memory.errors, wire, at_once ? Residual::Keep : Residual::Stay, context)) {
      if (at_once && masks(memory)) codec_.clear(wire, memory.velocity, context);
      return;
    }
  }
  // Finite numbers had an infinite sum. They are lost, which the wire says; the memory goes on.
  for (std::span<float> values : {memory.errors, memory.velocity})
    for (float& value : values)
      if (!std::isfinite(value)) value = 0;
}

void Feedback::pass(std::span<float> gradient, Memory memory, const CodecContext& context) const {
  if (memory.velocity.empty() || !all_finite(gradient, context.isa)) return;
  add_with_momentum(gradient, options_.momentum, memory.velocity, context.isa);
  std::copy(memory.velocity.begin(), memory.velocity.end(), gradient.begin());
}

/// What an estimate lacks of the gradient is what its encoding lacked.
void Feedback::encode_difference(std::span<const float> gradient, std::span<float> errors, View wire,
                                 const CodecContext& context) const {
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = gradient[i] - errors[i];
  if (codec_.encode(0, errors, wire, Residual::Keep, context)) {
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = gradient[i] - errors[i];
    return;
  }
  // All begin anew.
  std::fill(errors.begin(), errors.end(), 0.0F);
}

void Feedback::take_back(std::span<const float> rest, std::span<float> errors) const {
  const float sign = estimates() ? -1.0F : 1.0F;
  for (std::size_t i = 0; i < rest.size(); ++i) errors[i] += sign * rest[i];
}

void Feedback::conclude(std::span<float> sum, std::span<float> estimate, std::span<float> errors) const {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (std::isfinite(sum[i])) {
      sum[i] = estimate[i] += sum[i];
    } else {
      estimate[i] = errors[i] = 0;
    }
  }
}

void Feedback::answer(Memory memory, View wire, const CodecContext& context) const {
  if (codec_.encode(1, memory.errors, wire, Residual::Keep, context) && masks(memory))
    codec_.clear(wire, memory.velocity, context);
}

void Feedback::delivered(ConstView wire, Memory memory, const CodecContext& context) const {
  if (codec_.residual_timing() != ResidualTiming::Delivered) return;
  codec_.settle(wire, memory.errors, context);
  if (masks(memory)) codec_.clear(wire, memory.velocity, context);
}

void Feedback::delivered(std::span<const std::uint32_t> places, Memory memory) const {
  for (std::uint32_t place : places) memory.errors[place] = 0;
  if (!masks(memory)) return;
  for (std::uint32_t place : places) memory.velocity[place] = 0;
}

}  // namespace taxon::codec
