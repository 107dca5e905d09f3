#pragma once

#include "net/transport.h"
#include "net/wire/wire.h"

namespace taxon::net {

/// What of a SendOp or PutOp travels.
ConstView payload_of(const Op& op);
/// What the headers of all of a SendOp's or PutOp's fragments have alike: kind, tag, sizes, the put's target.
WireHeader header_of(const Op& op);

}  // namespace taxon::net
