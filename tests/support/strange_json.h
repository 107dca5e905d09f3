#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace taxon::test {

/// A number below `bound`, by chance or as a fuzzer wants it.
using Draw = std::function<std::uint64_t(std::uint64_t bound)>;

/// A value that some reader may not expect.
inline nlohmann::json strange_value(const Draw& draw) {
  static const nlohmann::json kValues = nlohmann::json::parse(
      R"([null, true, false, 0, 1, 2, 3, -1, 7, 2147483647, 2147483648, -2147483649, 9223372036854775807,
          -9223372036854775808, 18446744073709551615, 1e308, -1e308, 0.5, 1.5, -0.0, "", "abort", "ping",
          [], {}, [0, 1, 2], [-1], [1e300], [[[[[[[[1]]]]]]]], {"rank": 1}, {"event": "lost"}])");
  const std::size_t pick = draw(kValues.size() + 2);
  if (pick == kValues.size()) return std::string(draw(70'000), 'x');
  if (pick == kValues.size() + 1) return nlohmann::json(std::vector<int>(draw(3'000), 0));
  return kValues[pick];
}

/// Changes one value somewhere within.
inline void mutate(nlohmann::json& value, const Draw& draw) {
  if ((value.is_object() || value.is_array()) && !value.empty() && draw(4) != 0) {
    auto at = value.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(draw(value.size())));
    if (draw(6) == 0)
      value.erase(at);
    else
      mutate(*at, draw);
    return;
  }
  value = strange_value(draw);
}

}  // namespace taxon::test
