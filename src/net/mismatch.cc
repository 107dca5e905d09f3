#include "net/mismatch.h"

#include <fmt/format.h>

#include "net/describe.h"

namespace taxon::net {
namespace {

std::string words(PayloadShape shape) {
  return fmt::format("{} x {} ({} bytes)", shape.bytes / size_of(shape.type), to_string(shape.type),
                     shape.bytes);
}

}  // namespace

std::exception_ptr check_match(const RecvOp& op, Rank receiver, PayloadShape sent) {
  if (sent.bytes == op.payload.size() && sent.type == op.type) return nullptr;
  std::string operation = describe_operation(op.tag), subject = op.subject();
  std::string message = fmt::format(
      "Ranks disagree in {}, {}: rank {} sent {}, rank {} expected {}. Every rank must run the same plan and "
      "the same model.",
      operation, subject, op.peer.value(), words(sent), receiver.value(),
      words({op.payload.size(), op.type}));
  return std::make_exception_ptr(
      Error(ErrorKind::Mismatch, message, ErrorContext{op.peer, operation, subject}));
}

}  // namespace taxon::net
