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
/// What a frame may hold where less is enough: a first message, and the heads of ranks that report to rank 0.
struct FrameLimits {
  std::size_t head = kMaxHead, body = kMaxBody;
  std::size_t bytes() const { return kFrameHeader + head + body; }
};
/// The longest text within a head. Of longer ones the beginning is sent.
inline constexpr std::size_t kMaxText = std::size_t{16} << 10;
/// What a rank tells of what it waits for: the oldest.
inline constexpr std::size_t kMaxWaits = 64;
/// The longest name (of a host, a plan, a version, an operation).
inline constexpr std::size_t kMaxName = 512;

/// One encoded message; a broadcast shares it between connections.
using Packet = std::shared_ptr<const std::vector<std::byte>>;
Packet encode(const Message& message);

/// The first message of `input` and the bytes that it took, or nothing if more bytes are needed.
/// Throws ProtocolError for sizes over the limits and for a head that is no JSON object with a type.
struct Decoded {
  Message message;
  std::size_t used = 0;
};
std::optional<Decoded> decode(std::span<const std::byte> input, const FrameLimits& limits = {});

// Values of a head, which an outsider wrote. Each throws ProtocolError if the key is missing, its value is of
// another type, or out of bounds.
std::int64_t integer_at(const nlohmann::json& object, const char* key, std::int64_t least, std::int64_t most);
bool flag_at(const nlohmann::json& object, const char* key);
/// Not negative, and 73 years at most.
double seconds_at(const nlohmann::json& object, const char* key);
std::string text_at(const nlohmann::json& object, const char* key, std::size_t longest);
const nlohmann::json& list_at(const nlohmann::json& object, const char* key, std::size_t longest);
/// A rank of a world of `world_size`.
Rank rank_at(const nlohmann::json& object, const char* key, int world_size);
std::vector<Rank> ranks_at(const nlohmann::json& object, const char* key, int world_size);
/// One for each of `count` parts.
std::vector<std::size_t> sizes_at(const nlohmann::json& object, const char* key, std::size_t count);
/// A time of steady_clock in nanoseconds: 73 years, so that sums and differences of a few fit.
std::int64_t nanoseconds_at(const nlohmann::json& object, const char* key);

/// `text`, or as much of it as may travel.
std::string clipped(std::string text, std::size_t longest = kMaxText);

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
/// Throws ProtocolError, also for ranks outside of a world of `world_size`.
Event event_from_json(const nlohmann::json& json, int world_size);
/// The kind of that name; Internal for a name that this version does not know.
ErrorKind kind_from_text(const std::string& name);

}  // namespace taxon::control
