#include "data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "data/storage_errors.h"

namespace taxon::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// What follows "'key':" in the dictionary.
std::string_view value_of(std::string_view dictionary, std::string_view key, const std::string& path) {
  const std::size_t at = dictionary.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos)
    fail_contents(path, fmt::format("is no NumPy array: its header has no {}", key));
  std::string_view rest = dictionary.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

void read_type(std::string_view descr, const std::string& path, NpyFile& file) {
  const std::string_view type = descr.substr(0, descr.find('\'', 1));  // '<f4
  const bool is_plain = type.size() == 4 && type[0] == '\'';
  const char order = is_plain ? type[1] : '?', width = is_plain ? type[3] : '0';
  file.kind = is_plain ? type[2] : '?';
  file.width = static_cast<std::size_t>(width - '0');
  const bool is_ordered = order == '<' || order == '|' || order == '=';
  const bool is_whole = (file.kind == 'i' || file.kind == 'u') &&
                        std::string_view("1248").find(width) != std::string_view::npos;
  const bool is_real = file.kind == 'f' && (width == '4' || width == '8');
  const bool is_truth = file.kind == 'b' && width == '1';
  if (is_ordered && (is_whole || is_real || is_truth)) return;
  const char kind = type.size() > 3 ? type[2] : '?';
  const std::string_view to = kind == 'f' ? "<f4" : kind == 'i' || kind == 'u' ? "<i8" : "";
  fail_contents(path,
                fmt::format("holds elements of type {}'; little-endian numbers are wanted{}", type,
                            to.empty() ? "" : fmt::format(": save it again by array.astype('{}')", to)));
}

void read_extents(std::string_view shape, const std::string& path, NpyFile& file) {
  const std::size_t end = shape.find(')');
  if (!shape.starts_with('(') || end == std::string_view::npos)
    fail_contents(path, "is no NumPy array: its header has no shape");
  std::string_view list = shape.substr(1, end - 1);
  while (!list.empty()) {
    const std::size_t skipped = list.find_first_not_of(", ");
    if (skipped == std::string_view::npos) break;
    list.remove_prefix(skipped);
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(list.data(), list.data() + list.size(), extent);
    if (error != std::errc() || extent < 0)
      fail_contents(path, "is no NumPy array: its shape is no list of numbers");
    file.extents.push_back(extent);
    list.remove_prefix(static_cast<std::size_t>(next - list.data()));
  }
}

template <class T>
double as_number(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

double NpyFile::number(std::size_t index) const {
  const std::byte* at = bytes.data() + header + index * width;
  if (kind == 'f') return width == 4 ? as_number<float>(at) : as_number<double>(at);
  if (kind == 'i')
    return width == 1   ? as_number<std::int8_t>(at)
           : width == 2 ? as_number<std::int16_t>(at)
           : width == 4 ? as_number<std::int32_t>(at)
                        : as_number<std::int64_t>(at);
  return width == 1   ? as_number<std::uint8_t>(at)
         : width == 2 ? as_number<std::uint16_t>(at)
         : width == 4 ? as_number<std::uint32_t>(at)
                      : as_number<std::uint64_t>(at);
}

NpyFile parse_npy(std::vector<std::byte> bytes, const std::string& path) {
  NpyFile file{.bytes = std::move(bytes)};
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  if (!text.starts_with(kMagic)) fail_contents(path, "is no NumPy array (.npy): it does not begin like one");
  if (text.size() < 12) fail_contents(path, "is cut short within its header");
  auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(text[i])); };
  const std::size_t version = byte(6), start = version == 1 ? 10 : 12;
  if (version < 1 || version > 3)
    fail_contents(path, fmt::format("is of version {} of NumPy's format; 1 to 3 are known", version));
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > text.size() - start) fail_contents(path, "is cut short within its header");
  file.header = start + length;
  const std::string_view dictionary = text.substr(start, length);
  read_type(value_of(dictionary, "descr", path), path, file);
  if (!value_of(dictionary, "fortran_order", path).starts_with("False"))
    fail_contents(path,
                  "lies column by column (Fortran order); save it again by numpy.ascontiguousarray(array)");
  read_extents(value_of(dictionary, "shape", path), path, file);
  if (file.extents.empty()) fail_contents(path, "holds one number, and an array is wanted");
  std::uint64_t wanted = file.width;
  for (std::int64_t extent : file.extents)
    if (__builtin_mul_overflow(wanted, static_cast<std::uint64_t>(extent), &wanted))
      fail_contents(path, "claims an impossible size");
  const std::uint64_t held = file.bytes.size() - file.header;
  if (held != wanted)
    fail_contents(path, fmt::format("{}: its header promises {} bytes of elements, it has {}",
                                    held < wanted ? "is cut short" : "is too long", wanted, held));
  return file;
}

bool is_pixels(const NpyFile& file, DType type) {
  return type == DType::Float32 && file.kind == 'u' && file.width == 1;
}

std::vector<std::int64_t> sample_extents(std::vector<std::int64_t> extents, bool are_pixels) {
  if (extents.empty()) return {1};
  if (are_pixels && extents.size() == 2) return {1, extents[0], extents[1]};
  return extents;
}

std::string fault_of_elements(const NpyFile& file, DType type, Range elements, std::string_view what) {
  for (std::size_t k = 0; k < elements.size; ++k) {
    const double value = file.number(elements.begin + k);
    if (type == DType::Float32 && !std::isfinite(static_cast<float>(value)))
      return fmt::format("its {} {} is not finite", what, k);
    // Beyond 2^53 doubles aren't the numbers that were meant.
    if (type == DType::Int64 && !(value == std::floor(value) && std::abs(value) < 0x1p53))
      return fmt::format("its {} {} is {}, and whole numbers below 2^53 are wanted", what, k, value);
    if (type == DType::UInt8 && value != 0 && value != 1)
      return fmt::format("its {} {} is {}, and 0 and 1 are wanted", what, k, value);
  }
  return {};
}

NumberScale scale_of(const NpyFile& file, DType type, const plan::DataPlan& plan) {
  if (!is_pixels(file, type)) return {};
  return {1 / (255 * plan.deviation), plan.mean / plan.deviation};
}

}  // namespace taxon::data
