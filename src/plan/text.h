#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "plan/choice.h"
#include "plan/field.h"

namespace taxon::plan {

/// A key's value as it stands in a file: parse_text(to_text(x)) == x, numbers in the shortest form that does
/// so.
std::string to_text(const Field& field, bool value);
std::string to_text(const Field& field, int value);
std::string to_text(const Field& field, std::int64_t value);
std::string to_text(const Field& field, std::uint64_t value);
std::string to_text(const Field& field, double value);
std::string to_text(const Field& field, DType value);
std::string to_text(const Field& field, const std::string& value);
template <Choice E>
std::string to_text(const Field&, E value) {
  return std::string(to_string(value));
}

/// Sets `value` and returns true if `text` is what the field allows; otherwise leaves it alone. Numbers
/// may have their unit ("4MiB", "50us", "1 Gbit/s").
bool parse_text(const Field& field, std::string_view text, bool& value);
bool parse_text(const Field& field, std::string_view text, int& value);
bool parse_text(const Field& field, std::string_view text, std::int64_t& value);
bool parse_text(const Field& field, std::string_view text, std::uint64_t& value);
bool parse_text(const Field& field, std::string_view text, double& value);
bool parse_text(const Field& field, std::string_view text, DType& value);
bool parse_text(const Field& field, std::string_view text, std::string& value);
template <Choice E>
bool parse_text(const Field&, std::string_view text, E& value) {
  const std::optional<E> found = choice_from<E>(text);
  if (found) value = *found;
  return found.has_value();
}

/// What the field allows, for "must be ...": "a whole number of at least 0", "true or false".
std::string allowed(const Field& field, const bool&);
std::string allowed(const Field& field, const int&);
std::string allowed(const Field& field, const std::int64_t&);
std::string allowed(const Field& field, const std::uint64_t&);
std::string allowed(const Field& field, const double&);
std::string allowed(const Field& field, const DType&);
std::string allowed(const Field& field, const std::string&);
template <Choice E>
std::string allowed(const Field&, const E&) {
  std::string words;
  for (std::string_view word : Words<E>::all) {
    if (word.empty()) continue;
    words += words.empty() ? "one of " : ", ";
    words += word;
  }
  return words;
}

/// Lists of values: "[1, 2]".
std::vector<std::string_view> list_elements(std::string_view text);
template <class T>
requires requires(const Field& field, T value) { to_text(field, value); }
std::string to_text(const Field& field, const std::vector<T>& list) {
  std::string text;
  for (const T& element : list) text += (text.empty() ? "" : ", ") + to_text(field, element);
  return "[" + text + "]";
}
template <class T>
requires requires(const Field& field, T value) { to_text(field, value); }
bool parse_text(const Field& field, std::string_view text, std::vector<T>& list) {
  if (!text.starts_with('[') || !text.ends_with(']')) return false;
  std::vector<T> parsed;
  for (std::string_view element : list_elements(text))
    if (!parse_text(field, element, parsed.emplace_back())) return false;
  list = std::move(parsed);
  return true;
}
template <class T>
std::string allowed(const Field& field, const std::vector<T>&) {
  return "a list; each " + allowed(field, T{});
}

}  // namespace taxon::plan
