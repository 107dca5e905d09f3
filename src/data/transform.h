#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "data/dataset.h"
#include "plan/catalogue.h"
#include "plan/plan.h"

namespace taxon::data {

/// What is done to a sample's input after it was read. Immutable; any thread.
class Transform {
 public:
  virtual ~Transform() = default;
  /// Extents of what it writes.
  virtual std::vector<std::int64_t> output() const = 0;
  /// Writes the changed sample. `rng`: the sample's own in this epoch; null: outside of training, where
  /// nothing is left to chance. REQUIRES: sizes of the extents it was made for, and of output().
  virtual void apply(std::span<const float> from, std::span<float> to, Rng* rng) const = 0;
};

/// Extents of an image, channel by channel, row by row.
struct ImageExtents {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<std::int64_t> list() const { return {channels, height, width}; }
};

/// A transform, described.
struct TransformRow {
  std::string_view name;
  std::string_view sentence;
  /// For samples of these extents. Throws Error{Usage} if it makes no sense for them.
  std::unique_ptr<Transform> (*make)(const plan::Options& options, const std::vector<std::int64_t>& input);
  std::vector<plan::OptionKey> (*options)() = nullptr;
};
/// One file each in data/transforms.
std::span<const TransformRow> transform_table();
/// For plan::check_plan().
std::vector<plan::Catalogue::Transform> known_transforms(std::span<const TransformRow> own = {});

/// Throws Error{Usage} that names the transform unless `input` is [channels, height, width].
ImageExtents require_image(const std::vector<std::int64_t>& input, std::string_view transform);

/// Whether what transforms draw is drawn.
enum class Chance { Training, None };

/// `whole` with the plan's transforms; itself where there are none. What they draw for a sample is a function
/// of (seed, epoch, index in `whole`). Rows of one's own are found first. Throws Error{Usage}.
std::unique_ptr<Dataset> transformed(std::unique_ptr<Dataset> whole, const plan::DataPlan& plan,
                                     Chance chance, std::uint64_t seed,
                                     std::span<const TransformRow> own = {});

}  // namespace taxon::data
