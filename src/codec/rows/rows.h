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
CodecRow natural();
CodecRow sign();
CodecRow sign_vote();
CodecRow one_bit();
CodecRow two_bit();
CodecRow threshold();
CodecRow random_k();
CodecRow top_k();
CodecRow gtop_k();
CodecRow count_sketch();
CodecRow power_sgd();

/// How many of `count` values travel: at least one, if there are any.
std::size_t entries_of(std::size_t count, double density);

}  // namespace taxon::codec
