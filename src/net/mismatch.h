#pragma once

#include <exception>

#include "net/transport.h"

namespace taxon::net {

/// What a message says about its payload.
struct PayloadShape {
  std::size_t bytes = 0;
  DType type = DType::Float32;
};

/// Null when the message fits the receive; otherwise Error{Mismatch} that names both ranks, both shapes and
/// the tag.
std::exception_ptr check_match(const RecvOp& op, Rank receiver, PayloadShape sent);

}  // namespace taxon::net
