#include "codec/entry_codec.h"

#include <algorithm>
#include <cstring>

#include "codec/wire.h"

namespace taxon::codec {

bool EntryCodec::encode(int, std::span<float> values, View wire, Residual residual,
                        const CodecContext& context) const {
  const auto [places, chosen_values] = entries_to_fill(wire, chosen_.of(values.size()));
  const bool finite = choose(values, places, context);
  if (finite)
    for (std::size_t i = 0; i < places.size(); ++i) {
      chosen_values[i] = values[places[i]];
      if (residual == Residual::Keep) values[places[i]] = 0;
    }
  finish(wire, values.size(), finite);
  return finite;
}

void EntryCodec::decode(ConstView wire, std::span<float> values, Into into, const CodecContext&) const {
  const Entries entries = open_entries(wire, head(values.size()));
  if (!entries.finite) return fill_not_finite(values);
  if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
  for (std::size_t i = 0; i < entries.places.size(); ++i) values[entries.places[i]] += entries.values[i];
}

void EntryCodec::clear(ConstView wire, std::span<float> values, const CodecContext&) const {
  for (std::uint32_t place : open_entries(wire, head(values.size())).places) values[place] = 0;
}

void EntryCodec::finish(View wire, std::size_t count, bool finite) const {
  // Bytes between the entries and the next multiple of 64 are under the checksum too.
  View body = body_of(wire);
  const std::size_t used = chosen_.of(count) * sizeof(float), half = body.size() / 2;
  if (half > used) {
    std::memset(body.data() + used, 0, half - used);
    std::memset(body.data() + half + used, 0, half - used);
  }
  Head sealed = head(count);
  sealed.flags = finite ? 0 : kNotFinite;
  seal(wire, sealed);
}

}  // namespace taxon::codec
