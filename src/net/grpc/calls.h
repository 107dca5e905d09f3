#pragma once

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace taxon::net {

/// The two methods that a rank serves.
constexpr const char* kStreamMethod =
    "/taxon.Transport/Stream";  // fragments one way, for as long as it lasts
constexpr const char* kMessageMethod =
    "/taxon.Transport/Message";  // one fragment; answered when it was taken

/// Metadata of every call: who calls, and the token of the listener's card.
constexpr const char* kRankKey = "taxon-rank";
constexpr const char* kTokenKey = "taxon-token";

inline std::string token_text(const std::array<std::uint64_t, 2>& token) {
  return fmt::format("{:016x}{:016x}", token[0], token[1]);
}

}  // namespace taxon::net
