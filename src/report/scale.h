#pragma once

#include <string>
#include <vector>

namespace taxon::report {

/// What an axis counts; decides its unit.
enum class Quantity { Number, Share, Seconds, Bytes, Samples };

/// The unit in which values up to `most` are easy to read: value / factor is what a tick says.
struct DisplayUnit {
  double factor = 1;
  std::string name;  // "min", "GiB", "%"; empty: a plain number
};
DisplayUnit unit_for(Quantity quantity, double most);

/// "time, min": the name of an axis with its unit.
std::string with_unit(const std::string& title, const DisplayUnit& unit);

struct Tick {
  double value = 0;
  std::string label;
};

/// The values of an axis and where they lie: from `least` at pixel `from` to `most` at pixel `to`.
struct Scale {
  enum class Kind { Linear, Logarithmic } kind = Kind::Linear;
  double least = 0, most = 1;
  double from = 0, to = 1;
  /// Of its values. Ticks of a logarithmic scale of bytes have units of their own, since one unit does not
  /// fit all of it: the scale's values are bytes then.
  Quantity quantity = Quantity::Number;

  double at(double value) const;
};

/// A linear scale around all of `least` to `most` that ends at ticks, about `count` of them. Equal or invalid
/// bounds get room around them.
Scale linear_scale(double least, double most, int count = 5);
/// A logarithmic one; REQUIRES 0 < least <= most.
Scale logarithmic_scale(double least, double most, Quantity quantity = Quantity::Number);

/// Values of 1, 2 or 5 times a power of ten within the scale; decades and their parts if it is logarithmic.
std::vector<Tick> ticks_of(const Scale& scale, int count = 5);

}  // namespace taxon::report
