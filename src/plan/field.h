#pragma once

#include <concepts>
#include <limits>
#include <string_view>
#include <type_traits>

namespace taxon::plan {

/// What a number counts. Without a unit in the text it is in bytes, seconds, bytes or operations per second.
enum class Unit { None, Bytes, Seconds, BytesPerSecond, Flops };

/// What is known about a key beside its value. Reading, writing, overriding, suggestions and docs/plan.md are
/// all made from these.
struct Field {
  std::string_view key;
  std::string_view sentence;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not allowed
  bool below_max = false;
  Unit unit = Unit::None;
  int multiple_of = 1;         // of whole numbers
  std::string_view one_of{};   // keys of a section with the same word here stand for each other: giving one
                               // clears those that the same source did not give
  std::string_view choices{};  // the only words, or numbers, allowed, separated by spaces; empty: any
  std::string_view word{};     // of a section: the key that a plain word in its place gives; empty: none
};

template <class T, class Section>
concept Like = std::same_as<std::remove_const_t<T>, Section>;

}  // namespace taxon::plan
