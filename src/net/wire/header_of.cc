#include "net/wire/header_of.h"

namespace taxon::net {

ConstView payload_of(const Op& op) {
  if (auto* send = dynamic_cast<const SendOp*>(&op)) return send->payload;
  return static_cast<const PutOp&>(op).payload;
}

WireHeader header_of(const Op& op) {
  WireHeader header;
  header.tag = op.tag;
  header.size = payload_of(op).size();
  if (auto* send = dynamic_cast<const SendOp*>(&op)) {
    header.type = static_cast<std::uint8_t>(send->type);
    return header;
  }
  auto& put = static_cast<const PutOp&>(op);
  header.kind = WireKind::Put;
  header.signal = put.signal.index;
  header.value = put.value;
  if (put.region) header.address = put.region->address + put.offset;
  return header;
}

}  // namespace taxon::net
