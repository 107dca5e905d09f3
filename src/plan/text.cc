#include "plan/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace taxon::plan {
namespace {

struct UnitRow {
  std::string_view name;
  std::int64_t bytes;
};
constexpr UnitRow kUnits[] = {
    {"TiB", 1LL << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1000000000000},
    {"GB", 1000000000}, {"MB", 1000000},  {"kB", 1000},     {"KB", 1000},     {"B", 1}};

/// Units of numbers that need not be whole. Of two that a text ends with, the longer one stands first.
struct ScaleRow {
  Unit unit;
  std::string_view name;
  double scale;
};
constexpr ScaleRow kScales[] = {{Unit::Seconds, "min", 60},
                                {Unit::Seconds, "ms", 1e-3},
                                {Unit::Seconds, "us", 1e-6},
                                {Unit::Seconds, "ns", 1e-9},
                                {Unit::Seconds, "s", 1},
                                {Unit::BytesPerSecond, "Tbit/s", 125e9},
                                {Unit::BytesPerSecond, "Gbit/s", 125e6},
                                {Unit::BytesPerSecond, "Mbit/s", 125e3},
                                {Unit::BytesPerSecond, "kbit/s", 125},
                                {Unit::BytesPerSecond, "bit/s", 0.125},
                                {Unit::BytesPerSecond, "TiB/s", 0x1p40},
                                {Unit::BytesPerSecond, "GiB/s", 0x1p30},
                                {Unit::BytesPerSecond, "MiB/s", 0x1p20},
                                {Unit::BytesPerSecond, "KiB/s", 0x1p10},
                                {Unit::BytesPerSecond, "TB/s", 1e12},
                                {Unit::BytesPerSecond, "GB/s", 1e9},
                                {Unit::BytesPerSecond, "MB/s", 1e6},
                                {Unit::BytesPerSecond, "kB/s", 1e3},
                                {Unit::BytesPerSecond, "B/s", 1},
                                {Unit::Flops, "PFLOP/s", 1e15},
                                {Unit::Flops, "TFLOP/s", 1e12},
                                {Unit::Flops, "GFLOP/s", 1e9},
                                {Unit::Flops, "MFLOP/s", 1e6},
                                {Unit::Flops, "FLOP/s", 1}};

std::string_view number_words(Unit unit) {
  switch (unit) {
    case Unit::Seconds:
      return "a time such as 50us or 2 s";
    case Unit::BytesPerSecond:
      return "a rate such as 1 Gbit/s or 12 GB/s";
    case Unit::Flops:
      return "a speed such as 15 TFLOP/s";
    default:
      return "a number";
  }
}

constexpr DType kTypes[] = {DType::Float32, DType::Float64, DType::BFloat16};

std::vector<std::string> words(std::string_view spaced) {
  std::vector<std::string> all;
  while (!spaced.empty()) {
    auto end = std::min(spaced.find(' '), spaced.size());
    all.emplace_back(spaced.substr(0, end));
    spaced.remove_prefix(std::min(end + 1, spaced.size()));
  }
  return all;
}

bool is_choice(const Field& field, std::string_view word) {
  if (field.choices.empty()) return true;
  auto all = words(field.choices);
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string choice_words(const Field& field) {
  auto all = words(field.choices);
  return all.size() == 1 ? all[0] : fmt::format("one of {}", fmt::join(all, ", "));
}

bool in_range(const Field& field, double value) {
  bool low = field.above_min ? value > field.min : value >= field.min;
  bool high = field.below_max ? value < field.max : value <= field.max;
  return low && high;
}

std::string range_words(const Field& field) {
  std::vector<std::string> parts;
  if (std::isfinite(field.min))
    parts.push_back(fmt::format("{} {}", field.above_min ? "above" : "at least", field.min));
  if (std::isfinite(field.max))
    parts.push_back(fmt::format("{} {}", field.below_max ? "below" : "at most", field.max));
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::string with_range(const Field& field, std::string_view kind) {
  std::string range = range_words(field);
  return range.empty() ? std::string(kind) : fmt::format("{}, {}", kind, range);
}

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

template <class Integer>
bool parse_integer(const Field& field, std::string_view text, Integer& value) {
  std::int64_t unit = 1;
  if (field.unit == Unit::Bytes)
    for (const UnitRow& row : kUnits)
      if (text.ends_with(row.name)) {
        text.remove_suffix(row.name.size());
        while (text.ends_with(' ')) text.remove_suffix(1);
        unit = row.bytes;
        break;
      }
  Integer number{}, product{};
  if (!parse_number(text, number)) return false;
  if (__builtin_mul_overflow(number, unit, &product)) return false;
  if (!in_range(field, static_cast<double>(product)) || !is_choice(field, text)) return false;
  if (product % static_cast<Integer>(field.multiple_of) != 0) return false;
  value = product;
  return true;
}

std::string integer_words(const Field& field) {
  if (!field.choices.empty()) return choice_words(field);
  if (field.multiple_of > 1) return with_range(field, fmt::format("a multiple of {}", field.multiple_of));
  return with_range(field, field.unit == Unit::Bytes ? "a number of bytes (also as 4MiB)" : "a whole number");
}

}  // namespace

std::string to_text(const Field&, bool value) { return value ? "true" : "false"; }
std::string to_text(const Field&, int value) { return fmt::format("{}", value); }
std::string to_text(const Field& field, std::int64_t value) {
  constexpr std::int64_t kMiB = 1 << 20;
  if (field.unit == Unit::Bytes && value > 0 && value % kMiB == 0) return fmt::format("{}MiB", value / kMiB);
  return fmt::format("{}", value);
}
std::string to_text(const Field&, std::uint64_t value) { return fmt::format("{}", value); }
std::string to_text(const Field&, double value) { return fmt::format("{}", value); }
std::string to_text(const Field&, DType value) { return std::string(to_string(value)); }
std::string to_text(const Field&, const std::string& value) { return value; }

bool parse_text(const Field&, std::string_view text, bool& value) {
  if (text != "true" && text != "false") return false;
  value = text == "true";
  return true;
}
bool parse_text(const Field& field, std::string_view text, int& value) {
  return parse_integer(field, text, value);
}
bool parse_text(const Field& field, std::string_view text, std::int64_t& value) {
  return parse_integer(field, text, value);
}
bool parse_text(const Field& field, std::string_view text, std::uint64_t& value) {
  return parse_integer(field, text, value);
}
bool parse_text(const Field& field, std::string_view text, double& value) {
  double number = 0, scale = 1;
  for (const ScaleRow& row : kScales)
    if (row.unit == field.unit && text.ends_with(row.name)) {
      text.remove_suffix(row.name.size());
      while (text.ends_with(' ')) text.remove_suffix(1);
      scale = row.scale;
      break;
    }
  if (!parse_number(text, number)) return false;
  number *= scale;
  if (!std::isfinite(number) || !in_range(field, number)) return false;
  value = number;
  return true;
}
bool parse_text(const Field& field, std::string_view text, DType& value) {
  if (!is_choice(field, text)) return false;
  for (DType type : kTypes)
    if (to_string(type) == text) {
      value = type;
      return true;
    }
  return false;
}
bool parse_text(const Field& field, std::string_view text, std::string& value) {
  if (!is_choice(field, text)) return false;
  value = text;
  return true;
}

std::string allowed(const Field&, const bool&) { return "true or false"; }
std::string allowed(const Field& field, const int&) { return integer_words(field); }
std::string allowed(const Field& field, const std::int64_t&) { return integer_words(field); }
std::string allowed(const Field&, const std::uint64_t&) { return "a whole number, at least 0"; }
std::string allowed(const Field& field, const double&) { return with_range(field, number_words(field.unit)); }
std::string allowed(const Field& field, const DType&) { return choice_words(field); }
std::string allowed(const Field& field, const std::string&) {
  return field.choices.empty() ? "text" : choice_words(field);
}

std::vector<std::string_view> list_elements(std::string_view text) {
  std::vector<std::string_view> elements;
  text.remove_prefix(1);
  text.remove_suffix(1);
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    std::string_view element = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (element.starts_with(' ')) element.remove_prefix(1);
    while (element.ends_with(' ')) element.remove_suffix(1);
    elements.push_back(element);
  }
  return elements;
}

}  // namespace taxon::plan
