#pragma once

#include <string>

#include "codec/codec.h"
#include "planner/measured.h"
#include "planner/recorded_gradients.h"

namespace taxon::planner {

/// What a codec does to one gradient.
struct CodecFigures {
  double values_bytes = 0, wire_bytes = 0;  // of the gradient; of one member's wires, all rounds
  Measured encode, decode;                  // seconds on one core; absorbing a sum is decoding
  double error = 0;                         // |decoded - gradient| / |gradient|, of one member alone
  double sent = 0;                          // bytes that a member sends in a step
  double step_codec_seconds = 0;            // encoding and decoding of a step at one member
};

/// Encodes the gradient bucket by bucket, and decodes it again, as a group of one would.
CodecFigures measure_codec(const codec::CodecRow& row, const plan::CodecPlan& plan,
                           const RecordedGradient& gradient, int workers);

/// Bytes that a member sends for the gradient as it is.
double dense_bytes(const RecordedGradient& gradient, int workers);
/// Bytes per second that one core copies, read and written, of buffers of so many bytes.
double copy_bandwidth(std::size_t bytes);

}  // namespace taxon::planner
