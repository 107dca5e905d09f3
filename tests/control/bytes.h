#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace taxon::control {

inline std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes;
  for (char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

}  // namespace taxon::control
