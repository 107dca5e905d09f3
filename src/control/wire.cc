#include "control/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace taxon::control {
namespace {

constexpr int kMaxDepth = 8;

void put_u32(std::vector<std::byte>& out, std::size_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>((value >> shift) & 0xffU));
}

std::size_t get_u32(std::span<const std::byte> in) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::to_integer<std::size_t>(in[i]) << (8 * i);
  return value;
}

nlohmann::json parse_head(std::span<const std::byte> text) {
  auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) { return depth <= kMaxDepth; };
  const char* begin = reinterpret_cast<const char*>(text.data());
  nlohmann::json head = nlohmann::json::parse(begin, begin + text.size(), shallow, false);
  if (!head.is_object() || !head.contains("type") || !head["type"].is_string())
    throw ProtocolError("a frame that holds no message");
  return head;
}

Rank rank_of(const nlohmann::json& json) { return Rank(json.at("rank").get<std::int32_t>()); }

struct ToJson {
  nlohmann::json operator()(const PeerLost& e) const {
    return {{"event", "lost"}, {"rank", e.rank.value()}, {"reason", e.reason}};
  }
  nlohmann::json operator()(const Departed& e) const {
    return {{"event", "departed"}, {"rank", e.rank.value()}, {"reason", e.reason}};
  }
  nlohmann::json operator()(const Aborted& e) const {
    return {
        {"event", "aborted"}, {"rank", e.by.value()}, {"kind", to_string(e.kind)}, {"message", e.message}};
  }
  nlohmann::json operator()(const Silent& e) const { return timed("silent", e.rank, e.seconds); }
  nlohmann::json operator()(const Returned& e) const { return timed("returned", e.rank, e.seconds); }
  nlohmann::json operator()(const DeadlinePassed& e) const { return timed("deadline", e.rank, e.seconds); }
  nlohmann::json operator()(const StopRequested& e) const {
    return {{"event", "stop"}, {"rank", e.by.value()}};
  }
  nlohmann::json operator()(const HangReport& e) const {
    std::vector<std::int32_t> culprits;
    for (Rank rank : e.culprits) culprits.push_back(rank.value());
    return {{"event", "hang"}, {"lines", e.lines}, {"culprits", culprits}};
  }
  static nlohmann::json timed(const char* name, Rank rank, double seconds) {
    return {{"event", name}, {"rank", rank.value()}, {"seconds", seconds}};
  }
};

double seconds_of(const nlohmann::json& json) { return json.at("seconds").get<double>(); }

Event hang_from(const nlohmann::json& json) {
  HangReport report;
  report.lines = json.at("lines").get<std::vector<std::string>>();
  for (const auto& rank : json.at("culprits")) report.culprits.push_back(Rank(rank.get<std::int32_t>()));
  return report;
}

struct EventRow {
  const char* name;
  Event (*read)(const nlohmann::json&);
};
using Json = nlohmann::json;
constexpr EventRow kEvents[] = {
    {"lost",
     [](const Json& j) -> Event {
       return PeerLost{rank_of(j), j.at("reason")};
     }},
    {"departed",
     [](const Json& j) -> Event {
       return Departed{rank_of(j), j.at("reason")};
     }},
    {"aborted",
     [](const Json& j) -> Event {
       return Aborted{rank_of(j), kind_from_text(j.at("kind")), j.at("message")};
     }},
    {"silent",
     [](const Json& j) -> Event {
       return Silent{rank_of(j), seconds_of(j)};
     }},
    {"returned",
     [](const Json& j) -> Event {
       return Returned{rank_of(j), seconds_of(j)};
     }},
    {"deadline",
     [](const Json& j) -> Event {
       return DeadlinePassed{rank_of(j), seconds_of(j)};
     }},
    {"stop", [](const Json& j) -> Event { return StopRequested{rank_of(j)}; }},
    {"hang", hang_from},
};

}  // namespace

Packet encode(const Message& message) {
  // A file's name in an error message need not be UTF-8.
  std::string head = message.head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  TAXON_CHECK(head.size() <= kMaxHead && message.body.size() <= kMaxBody, "head=", head.size(),
              " body=", message.body.size());
  auto packet = std::make_shared<std::vector<std::byte>>();
  packet->reserve(kFrameHeader + head.size() + message.body.size());
  put_u32(*packet, head.size());
  put_u32(*packet, message.body.size());
  std::transform(head.begin(), head.end(), std::back_inserter(*packet),
                 [](char c) { return static_cast<std::byte>(c); });
  packet->insert(packet->end(), message.body.begin(), message.body.end());
  return packet;
}

std::optional<Decoded> decode(std::span<const std::byte> input) {
  if (input.size() < kFrameHeader) return {};
  std::size_t head = get_u32(input), body = get_u32(input.subspan(4));
  if (head > kMaxHead || body > kMaxBody)
    throw ProtocolError(fmt::format("a frame of {} + {} bytes, which is over the limit", head, body));
  if (input.size() - kFrameHeader < head + body) return {};
  auto rest = input.subspan(kFrameHeader);
  Decoded decoded;
  decoded.message.head = parse_head(rest.first(head));
  auto bytes = rest.subspan(head, body);
  decoded.message.body.assign(bytes.begin(), bytes.end());
  decoded.used = kFrameHeader + head + body;
  return decoded;
}

Packed pack(const std::vector<std::vector<std::byte>>& parts) {
  Packed packed;
  for (const auto& part : parts) {
    packed.sizes.push_back(part.size());
    packed.bytes.insert(packed.bytes.end(), part.begin(), part.end());
  }
  return packed;
}

std::vector<std::vector<std::byte>> unpack(const std::vector<std::size_t>& sizes,
                                           std::span<const std::byte> bytes) {
  std::vector<std::vector<std::byte>> parts;
  for (std::size_t size : sizes) {
    if (size > bytes.size()) throw ProtocolError("a body that is shorter than its parts");
    parts.emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    bytes = bytes.subspan(size);
  }
  if (!bytes.empty()) throw ProtocolError("a body that is longer than its parts");
  return parts;
}

nlohmann::json to_json(const Event& event) { return std::visit(ToJson(), event); }

Event event_from_json(const nlohmann::json& json) {
  auto name = json.at("event").get<std::string>();
  for (const EventRow& row : kEvents)
    if (name == row.name) return row.read(json);
  throw ProtocolError("an unknown event '" + name + "'");
}

ErrorKind kind_from_text(const std::string& name) {
  const auto& kinds = all_error_kinds();
  auto found = std::find_if(kinds.begin(), kinds.end(), [&](ErrorKind k) { return name == to_string(k); });
  return found == kinds.end() ? ErrorKind::Internal : *found;
}

}  // namespace taxon::control
