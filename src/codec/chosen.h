#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/option_fields.h"
#include "plan/catalogue.h"

namespace taxon::codec {

/// How many of `count` values travel: at least one, if there are any.
std::size_t entries_of(std::size_t count, double density);

/// The same as a plan says it: by a share of them, or by a number.
struct ChosenOptions {
  double density = 0.01;
  std::int64_t entries = 0;  // 0: density says
};
template <plan::Like<ChosenOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
  visit(kEntries, o.entries);
}
struct DensityOptions {
  double density = 0.01;
};
template <plan::Like<DensityOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
}
struct Chosen {
  explicit Chosen(const ChosenOptions& options)
      : density(options.density), entries(static_cast<std::size_t>(options.entries)) {}
  explicit Chosen(double density) : density(density) {}
  std::size_t of(std::size_t count) const {
    return entries > 0 ? (entries < count ? entries : count) : entries_of(count, density);
  }
  /// For prices, which are by value: a number is a small share of many.
  double share() const { return entries > 0 ? 0 : density; }
  double density;
  std::size_t entries = 0;  // 0: density says
};
plan::Violation entries_of_whole_ranges(const plan::LegalityInput& input, const plan::LevelPlan& level);
/// `entries` is a number of a whole range's values, so no range may be cut into parts.
inline constexpr plan::LevelRule kEntriesOfWholeRanges[1] = {
    {"exchange.levels.codec.entries", "needs topology all_reduce, where no range is cut into parts",
     entries_of_whole_ranges}};

/// The place of draw `i` of as many as `draws`, one of each of as many equal parts of `count` values, which
/// is the same for all who have the key.
struct Draws {
  std::size_t count, draws;
};
std::size_t stratified(Draws of, std::size_t i, std::uint64_t key);

}  // namespace taxon::codec
