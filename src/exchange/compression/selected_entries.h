#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "codec/entries.h"

namespace taxon::exchange {

/// The entries that counted in the end, where an owner chose them by asking (codec::CoordinateQuery).
struct SelectedEntries {
  bool finite = true;
  std::vector<std::uint32_t> places;  // ascending; none if not finite
};

/// Bytes of what an owner of so many values then says: where they are, and what is there now.
std::size_t answer_bytes(const codec::CoordinateQuery& inquiry, std::size_t count);
/// `values`: the owner's, all of them.
void write_answer(View wire, const SelectedEntries& chosen, std::span<const float> values,
                  const codec::CoordinateQuery& inquiry);
/// Throws Error{Transport} unless it is an unchanged answer about as many values.
codec::Entries open_answer(ConstView wire, std::size_t count, const codec::CoordinateQuery& inquiry);

/// Bytes there and back between a worker and the owner of so many values, heads left aside.
std::size_t asked_bytes(const codec::Codec& codec, std::size_t count);

}  // namespace taxon::exchange
