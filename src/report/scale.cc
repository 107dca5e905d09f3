#include "report/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace taxon::report {
namespace {

struct UnitRow {
  Quantity quantity;
  double from;  // used where the largest value is at least this
  double factor;
  const char* name;
};
// The first row that fits counts.
constexpr double kKi = 1024;
constexpr UnitRow kUnits[] = {
    {Quantity::Share, 0, 0.01, "%"},
    {Quantity::Seconds, 3 * 3600, 3600, "h"},
    {Quantity::Seconds, 600, 60, "min"},
    {Quantity::Seconds, 1, 1, "s"},
    {Quantity::Seconds, 1e-3, 1e-3, "ms"},
    {Quantity::Seconds, 0, 1e-6, "µs"},
    {Quantity::Bytes, kKi* kKi* kKi* kKi, kKi* kKi* kKi* kKi, "TiB"},
    {Quantity::Bytes, kKi* kKi* kKi, kKi* kKi* kKi, "GiB"},
    {Quantity::Bytes, kKi* kKi, kKi* kKi, "MiB"},
    {Quantity::Bytes, kKi, kKi, "KiB"},
    {Quantity::Bytes, 0, 1, "B"},
    {Quantity::Samples, 1e6, 1e6, "millions"},
    {Quantity::Samples, 1e4, 1e3, "thousands"},
    {Quantity::Samples, 0, 1, ""},
};

/// 1, 2 or 5 times a power of ten, so that about `count` of them make up `span`.
double nice_step(double span, int count) {
  const double raw = span / std::max(1, count);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (double multiple : {1.0, 2.0, 5.0})
    if (raw <= multiple * power * (1 + 1e-9)) return multiple * power;
  return 10 * power;
}

std::string label(double value, double step) {
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
  if (std::abs(value) < step * 1e-6) value = 0;
  return fmt::format("{:.{}f}", value, decimals);
}

std::vector<Tick> linear_ticks(const Scale& scale, int count) {
  const double step = nice_step(scale.most - scale.least, count);
  std::vector<Tick> ticks;
  for (double i = std::ceil(scale.least / step - 1e-6); i * step <= scale.most + step * 1e-6; ++i)
    ticks.push_back({i * step, label(i * step, step)});
  return ticks;
}

std::vector<Tick> decade_ticks(const Scale& scale, const std::vector<double>& multiples) {
  std::vector<Tick> ticks;
  for (double exponent = std::floor(std::log10(scale.least)); exponent <= std::ceil(std::log10(scale.most));
       ++exponent)
    for (double multiple : multiples) {
      const double value = multiple * std::pow(10, exponent);
      if (value >= scale.least * (1 - 1e-9) && value <= scale.most * (1 + 1e-9))
        ticks.push_back({value, fmt::format("{:g}", value)});
    }
  return ticks;
}

/// Powers of `base`, each in the unit that fits it.
std::vector<Tick> byte_ticks(const Scale& scale, double base) {
  std::vector<Tick> ticks;
  for (double value = 1; value <= scale.most * (1 + 1e-9); value *= base) {
    const DisplayUnit unit = unit_for(Quantity::Bytes, value);
    if (value >= scale.least * (1 - 1e-9))
      ticks.push_back({value, fmt::format("{:g} {}", value / unit.factor, unit.name)});
  }
  return ticks;
}

}  // namespace

DisplayUnit unit_for(Quantity quantity, double most) {
  for (const UnitRow& row : kUnits)
    if (row.quantity == quantity && most >= row.from) return {row.factor, row.name};
  return {};
}

std::string with_unit(const std::string& title, const DisplayUnit& unit) {
  return unit.name.empty() ? title : fmt::format("{}, {}", title, unit.name);
}

double Scale::at(double value) const {
  double share = 0;
  if (kind == Kind::Logarithmic)
    share = std::log(std::max(value, least) / least) / std::log(most / least);
  else
    share = (value - least) / (most - least);
  return from + (to - from) * share;
}

Scale linear_scale(double least, double most, int count) {
  if (!std::isfinite(least) || !std::isfinite(most) || least > most) least = 0, most = 1;
  // Values that rounding alone keeps apart are one: there are no steps between them to count.
  if (most - least <= 1e-12 * std::max(std::abs(least), std::abs(most))) {
    const double room = least == 0 ? 1 : std::abs(least) * 0.1;
    least -= least > 0 || least < 0 ? room : 0;
    most += room;
  }
  const double step = nice_step(most - least, count);
  Scale scale;
  scale.least = std::floor(least / step + 1e-6) * step;
  scale.most = std::ceil(most / step - 1e-6) * step;
  return scale;
}

Scale logarithmic_scale(double least, double most, Quantity quantity) {
  TAXON_CHECK(least > 0 && least <= most, "least=", least, " most=", most);
  Scale scale;
  scale.kind = Scale::Kind::Logarithmic;
  scale.quantity = quantity;
  scale.least = least / 1.1;
  scale.most = most * 1.1;
  return scale;
}

std::vector<Tick> ticks_of(const Scale& scale, int count) {
  if (scale.kind == Scale::Kind::Linear) return linear_ticks(scale, count);
  if (scale.quantity == Quantity::Bytes) {
    for (double base : {1024.0, 32.0, 8.0, 4.0})
      if (auto ticks = byte_ticks(scale, base); ticks.size() >= 3) return ticks;
    return byte_ticks(scale, 2);
  }
  // The coarsest that leaves enough to read the axis by.
  for (const std::vector<double>& multiples : {std::vector<double>{1}, {1, 3}, {1, 2, 5}}) {
    auto ticks = decade_ticks(scale, multiples);
    if (ticks.size() >= 3) return ticks;
  }
  return decade_ticks(scale, {1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9});
}

}  // namespace taxon::report
