#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/view.h"
#include "plan/plan.h"

namespace taxon::data {

/// One array as NumPy saves it (numpy.lib.format, versions 1 to 3): a magic string, a header that is a Python
/// dictionary, the elements.
struct NpyFile {
  char kind = 'f';        // f: floating, i: signed, u: unsigned, b: true or false
  std::size_t width = 4;  // bytes of an element
  std::vector<std::int64_t> extents;
  std::vector<std::byte> bytes;  // the whole file
  std::size_t header = 0;        // what comes before the elements
  std::span<const std::byte> elements() const { return std::span(bytes).subspan(header); }
  std::size_t count() const { return elements().size() / width; }
  double number(std::size_t index) const;
};

/// Throws Error{Data} naming `path` unless `bytes` are an array of little-endian numbers of 1, 2 (whole
/// ones), 4 or 8 bytes in C order, with at least one extent and exactly as many elements as its extents say.
NpyFile parse_npy(std::vector<std::byte> bytes, const std::string& path);

// Elements taken as a type.

/// Unsigned bytes as numbers: these are normalised.
bool is_pixels(const NpyFile& file, DType type);
/// Of one sample, as a model sees it: one number is a list of one, and pixels of two extents have one
/// channel.
std::vector<std::int64_t> sample_extents(std::vector<std::int64_t> extents, bool are_pixels);
/// What is wrong with these elements, "its element 3 is not finite"; empty: nothing.
std::string fault_of_elements(const NpyFile& file, DType type, Range elements, std::string_view what);
/// What becomes of a number.
struct NumberScale {
  double scale = 1, shift = 0;
  double operator()(double number) const { return number * scale - shift; }
};
NumberScale scale_of(const NpyFile& file, DType type, const plan::DataPlan& plan);

}  // namespace taxon::data
