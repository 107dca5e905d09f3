#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "control/event.h"

namespace taxon::control {

/// What travels after the handshake: a JSON object with its type under "type", and bytes that JSON cannot
/// hold well. docs/control.md lists the types.
struct Message {
  nlohmann::json head;
  std::vector<std::byte> body;
};

/// Bytes that are not a message.
class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Frame: size of the head (u32, little-endian), size of the body (u32), head, body.
inline constexpr std::size_t kFrameHeader = 8;
inline constexpr std::size_t kMaxHead = std::size_t{16} << 20;
inline constexpr std::size_t kMaxBody = std::size_t{256} << 20;

/// One encoded message; a broadcast shares it between connections.
using Packet = std::shared_ptr<const std::vector<std::byte>>;
Packet encode(const Message& message);

/// The first message of `input` and the bytes that it took, or nothing if more bytes are needed.
/// Throws ProtocolError for sizes over the limits and for a head that is no JSON object with a type.
struct Decoded {
  Message message;
  std::size_t used = 0;
};
std::optional<Decoded> decode(std::span<const std::byte> input);

/// Several byte strings as one body; `sizes` goes into the head.
struct Packed {
  std::vector<std::size_t> sizes;
  std::vector<std::byte> bytes;
};
Packed pack(const std::vector<std::vector<std::byte>>& parts);
/// Throws ProtocolError if the sizes don't add up.
std::vector<std::vector<std::byte>> unpack(const std::vector<std::size_t>& sizes,
                                           std::span<const std::byte> bytes);

nlohmann::json to_json(const Event& event);
/// Throws ProtocolError or a JSON error.
Event event_from_json(const nlohmann::json& json);
/// The kind of that name; Internal for a name that this version does not know.
ErrorKind kind_from_text(const std::string& name);

}  // namespace taxon::control
