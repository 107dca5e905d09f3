#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"
#include "base/view.h"

namespace taxon::codec {

/// The places of the indices.size() values of largest magnitude, ascending. Of equal magnitudes the one at
/// the lower place goes first, so that everybody who has the same values chooses the same. False, and no
/// promise about the indices, if a value is not finite.
///
/// Exact. A small sample gives a magnitude that somewhat more than enough values reach; one pass over the
/// values collects those, with their order decided among them alone. Where that goes wrong (many entries,
/// many equal values, a sample that misleads) histograms of magnitudes, eleven bits at a time, decide. A
/// single value is the largest; of very few values keys are sorted halfway.
/// REQUIRES: indices.size() <= values.size() <= 2^32; scratch of select_scratch_bytes(), aligned to 64;
/// with less it takes longer to the same.
bool select_largest(std::span<const float> values, std::span<std::uint32_t> indices, View scratch, Isa path);
std::size_t select_scratch_bytes(std::size_t count, std::size_t chosen);

/// The same without a sample, for tests and for whoever has no scratch: three passes and a fourth.
bool select_by_histogram(std::span<const float> values, std::span<std::uint32_t> indices);

}  // namespace taxon::codec
