#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>

namespace taxon::plan {

/// The words of a closed choice: `all`, one for each value of the enum, in the values' order. Specialised
/// beside the enum.
template <class E>
struct Words;

/// An enum that recipes write as a word.
template <class E>
concept Choice = requires {
  Words<E>::all;
};

template <Choice E>
constexpr std::string_view to_string(E value) {
  return Words<E>::all[static_cast<std::size_t>(value)];
}

/// None for a word that no value has.
template <Choice E>
constexpr std::optional<E> choice_from(std::string_view word) {
  const auto& all = Words<E>::all;
  const auto found = std::find(std::begin(all), std::end(all), word);
  if (found == std::end(all)) return std::nullopt;
  return static_cast<E>(found - std::begin(all));
}

}  // namespace taxon::plan

template <taxon::plan::Choice E>
struct fmt::formatter<E> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(E value, Context& context) const {
    const std::string_view word = taxon::plan::to_string(value);
    return fmt::formatter<fmt::string_view>::format({word.data(), word.size()}, context);
  }
};
