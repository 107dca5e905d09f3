#pragma once

#include "codec/codec.h"

namespace taxon::codec {

// Every codec of the table, one file each; see docs/compression.md.

CodecRow bf16();
CodecRow fp16();
CodecRow int8();
CodecRow int4();
CodecRow qsgd();
CodecRow terngrad();
CodecRow random_k();
CodecRow top_k();
CodecRow gtop_k();
CodecRow count_sketch();

/// How many of `count` values travel: at least one, if there are any.
std::size_t entries_of(std::size_t count, double density);

}  // namespace taxon::codec
