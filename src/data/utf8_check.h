#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/view.h"

namespace taxon::data {

/// Finds what is no text in a stream of bytes that comes in pieces: zero bytes, and what is not UTF-8 (RFC
/// 3629).
class Utf8Check {
 public:
  struct Fault {
    std::uint64_t byte = 0;  // of the stream, from 0
    std::uint64_t line = 1;
    std::string_view why;
  };
  /// What is wrong with the next piece.
  std::vector<Fault> take(std::span<const std::byte> piece);
  /// What is wrong at the end: a character that is cut short.
  std::optional<Fault> end() const;

 private:
  /// Bytes that must follow, and between which bounds the first of them must be.
  int missing_ = 0;
  unsigned low_ = 0x80, high_ = 0xbf;
  std::uint64_t byte_ = 0, line_ = 1;
};

}  // namespace taxon::data
