#include "codec/codec.h"

#include "base/check.h"

namespace taxon::codec {

void Codec::merge(View, ConstView, std::span<float>, const CodecContext&) const {
  TAXON_CHECK(false, "wires of this codec can't be merged");
}

void Codec::settle(ConstView, std::span<float>, const CodecContext&) const {
  TAXON_CHECK(false, "this codec settles when values are encoded");
}

void Codec::clear(ConstView, std::span<float>, const CodecContext&) const {
  TAXON_CHECK(false, "wires of this codec name no entries");
}

}  // namespace taxon::codec
