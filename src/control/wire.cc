#include "control/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace taxon::control {
namespace {

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxHangLines = 500;
constexpr std::int64_t kMaxNanoseconds = std::int64_t{1} << 61;

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

[[noreturn]] void refuse(const char* key, const char* what) {
  throw ProtocolError(fmt::format("'{}' is {}", key, what));
}

const nlohmann::json& value_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) refuse(key, "looked for in what is no object");
  auto found = object.find(key);
  if (found == object.end()) refuse(key, "missing");
  return *found;
}

bool is_integer_within(const nlohmann::json& value, std::int64_t least, std::int64_t most) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return false;
  // A number with a fraction is converted without a word otherwise.
  return value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
}

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
    auto lines = e.lines;
    if (lines.size() > kMaxHangLines) {
      lines.resize(kMaxHangLines - 1);
      lines.push_back(fmt::format("  and {} lines more", e.lines.size() - lines.size()));
    }
    return {{"event", "hang"}, {"lines", lines}, {"culprits", culprits}};
  }
  static nlohmann::json timed(const char* name, Rank rank, double seconds) {
    return {{"event", name}, {"rank", rank.value()}, {"seconds", seconds}};
  }
};

struct EventRow {
  const char* name;
  Event (*read)(const nlohmann::json&, int world_size);
};
using Json = nlohmann::json;

Event read_hang(const Json& json, int world_size) {
  HangReport report;
  for (const Json& line : list_at(json, "lines", kMaxHangLines)) {
    if (!line.is_string()) refuse("lines", "no list of texts");
    report.lines.push_back(line.get<std::string>());
  }
  report.culprits = ranks_at(json, "culprits", world_size);
  return report;
}

constexpr EventRow kEvents[] = {
    {"lost",
     [](const Json& j, int world) -> Event {
       return PeerLost{rank_at(j, "rank", world), text_at(j, "reason", kMaxText)};
     }},
    {"departed",
     [](const Json& j, int world) -> Event {
       return Departed{rank_at(j, "rank", world), text_at(j, "reason", kMaxText)};
     }},
    {"aborted",
     [](const Json& j, int world) -> Event {
       return Aborted{rank_at(j, "rank", world), kind_from_text(text_at(j, "kind", kMaxName)),
                      text_at(j, "message", kMaxText)};
     }},
    {"silent",
     [](const Json& j, int world) -> Event {
       return Silent{rank_at(j, "rank", world), seconds_at(j, "seconds")};
     }},
    {"returned",
     [](const Json& j, int world) -> Event {
       return Returned{rank_at(j, "rank", world), seconds_at(j, "seconds")};
     }},
    {"deadline",
     [](const Json& j, int world) -> Event {
       return DeadlinePassed{rank_at(j, "rank", world), seconds_at(j, "seconds")};
     }},
    {"stop", [](const Json& j, int world) -> Event { return StopRequested{rank_at(j, "rank", world)}; }},
    {"hang", read_hang},
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

std::optional<Decoded> decode(std::span<const std::byte> input, const FrameLimits& limits) {
  if (input.size() < kFrameHeader) return {};
  std::size_t head = get_u32(input), body = get_u32(input.subspan(4));
  if (head > limits.head || body > limits.body)
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

std::int64_t integer_at(const nlohmann::json& object, const char* key, std::int64_t least,
                        std::int64_t most) {
  const auto& value = value_at(object, key);
  if (!is_integer_within(value, least, most)) refuse(key, "no number within its bounds");
  return value.get<std::int64_t>();
}

bool flag_at(const nlohmann::json& object, const char* key) {
  const auto& value = value_at(object, key);
  if (!value.is_boolean()) refuse(key, "neither true nor false");
  return value.get<bool>();
}

double seconds_at(const nlohmann::json& object, const char* key) {
  const auto& value = value_at(object, key);
  // NaN is neither.
  if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= kMaxNanoseconds * 1e-9))
    refuse(key, "no time");
  return value.get<double>();
}

std::string text_at(const nlohmann::json& object, const char* key, std::size_t longest) {
  const auto& value = value_at(object, key);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > longest)
    refuse(key, "no text, or too long");
  return value.get<std::string>();
}

const nlohmann::json& list_at(const nlohmann::json& object, const char* key, std::size_t longest) {
  const auto& value = value_at(object, key);
  if (!value.is_array() || value.size() > longest) refuse(key, "no list, or too long");
  return value;
}

Rank rank_at(const nlohmann::json& object, const char* key, int world_size) {
  return Rank(static_cast<std::int32_t>(integer_at(object, key, 0, world_size - 1)));
}

std::vector<Rank> ranks_at(const nlohmann::json& object, const char* key, int world_size) {
  std::vector<Rank> ranks;
  for (const auto& rank : list_at(object, key, static_cast<std::size_t>(world_size))) {
    if (!is_integer_within(rank, 0, world_size - 1)) refuse(key, "no list of ranks");
    ranks.emplace_back(rank.get<std::int32_t>());
  }
  return ranks;
}

std::vector<std::size_t> sizes_at(const nlohmann::json& object, const char* key, std::size_t count) {
  const auto& list = list_at(object, key, count);
  std::vector<std::size_t> sizes;
  for (const auto& size : list) {
    if (!is_integer_within(size, 0, kMaxBody)) refuse(key, "no list of sizes");
    sizes.push_back(size.get<std::size_t>());
  }
  if (sizes.size() != count) refuse(key, "a list of another length");
  return sizes;
}

std::int64_t nanoseconds_at(const nlohmann::json& object, const char* key) {
  return integer_at(object, key, 0, kMaxNanoseconds);
}

std::string clipped(std::string text, std::size_t longest) {
  constexpr std::string_view kMore = "...";
  // JSON is UTF-8, and what is not would be replaced by more bytes than it has.
  const auto written = [](const std::string& any) {
    using Handler = nlohmann::json::error_handler_t;
    return nlohmann::json::parse(nlohmann::json(any).dump(-1, ' ', false, Handler::replace))
        .get<std::string>();
  };
  text = written(text);
  if (text.size() <= longest) return text;
  std::size_t end = longest - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // within a character
  return text.substr(0, end).append(kMore);
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

Event event_from_json(const nlohmann::json& json, int world_size) {
  const std::string name = text_at(json, "event", kMaxName);
  for (const EventRow& row : kEvents)
    if (name == row.name) return row.read(json, world_size);
  throw ProtocolError("an unknown event '" + name + "'");
}

ErrorKind kind_from_text(const std::string& name) {
  const auto& kinds = all_error_kinds();
  auto found = std::find_if(kinds.begin(), kinds.end(), [&](ErrorKind k) { return name == to_string(k); });
  return found == kinds.end() ? ErrorKind::Internal : *found;
}

}  // namespace taxon::control
