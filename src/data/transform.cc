#include "data/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/error.h"

namespace taxon::data {
namespace {

const TransformRow& find_transform(std::string_view name, std::span<const TransformRow> own) {
  for (std::span<const TransformRow> rows : {own, transform_table()})
    for (const TransformRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, fmt::format("data.transforms: no transform is called \"{}\"", name));
}

std::size_t elements(const std::vector<std::int64_t>& extents) {
  std::size_t n = 1;
  for (std::int64_t extent : extents) n *= static_cast<std::size_t>(extent);
  return n;
}

class Transformed final : public Dataset {
 public:
  Transformed(std::unique_ptr<Dataset> whole, const plan::DataPlan& plan, Chance chance, std::uint64_t seed,
              std::span<const TransformRow> own)
      : whole_(std::move(whole)), chance_(chance), seed_(seed), shape_(whole_->shape()) {
    if (shape_.input_type != DType::Float32)
      throw Error(ErrorKind::Usage, fmt::format("data.transforms: they need inputs float32, and data set {} "
                                                "gives {}; take them away",
                                                plan.dataset, describe(shape_)));
    largest_ = elements(shape_.input);
    for (const plan::TransformPlan& transform : plan.transforms) {
      chain_.push_back(find_transform(transform.name, own).make(transform.options, shape_.input));
      shape_.input = chain_.back()->output();
      largest_ = std::max(largest_, elements(shape_.input));
    }
  }
  std::int64_t size() const override { return whole_->size(); }
  const SampleShape& shape() const override { return shape_; }
  void read_parts(std::optional<std::int64_t> epoch, std::span<const std::int64_t> indices,
                  const Rooms& rooms) const override {
    change(chance_ == Chance::Training ? epoch : std::nullopt, indices, rooms);
  }
  bool is_slow() const override { return true; }
  tensor::Cost cost(std::int64_t samples) const override {
    tensor::Cost cost = whole_->cost(samples);
    cost.bytes += static_cast<std::size_t>(samples) * 2 * sizeof(float) * largest_ * chain_.size();
    return cost;
  }

 private:
  /// The first input; others stay as they are.
  void change(std::optional<std::int64_t> epoch, std::span<const std::int64_t> indices,
              const Rooms& rooms) const {
    const std::span<float> inputs = numbers(rooms.inputs[0]);
    const std::size_t before = elements(whole_->shape().input), after = elements(shape_.input);
    TAXON_CHECK(inputs.size() == indices.size() * after, inputs.size(), " of ", indices.size(), " samples");
    std::vector<float> from(indices.size() * before), here(largest_), there(largest_);
    Rooms unchanged = rooms;
    unchanged.inputs[0] = Room(std::span(from));
    whole_->read_parts(epoch, indices, unchanged);
    const std::string purpose = fmt::format("transforms of epoch {}", epoch.value_or(0));
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::optional<Rng> rng;
      if (epoch) rng.emplace(seed_, purpose, static_cast<std::uint64_t>(indices[i]));
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i * before), before, here.begin());
      std::size_t size = before;
      for (const auto& transform : chain_) {
        const std::size_t next = elements(transform->output());
        transform->apply(std::span(here).first(size), std::span(there).first(next), rng ? &*rng : nullptr);
        std::swap(here, there);
        size = next;
      }
      std::copy_n(here.begin(), after, inputs.begin() + static_cast<std::ptrdiff_t>(i * after));
    }
  }

  const std::unique_ptr<Dataset> whole_;
  const Chance chance_;
  const std::uint64_t seed_;
  SampleShape shape_;
  std::vector<std::unique_ptr<Transform>> chain_;
  std::size_t largest_ = 0;  // elements between two transforms
};

}  // namespace

ImageExtents require_image(const std::vector<std::int64_t>& input, std::string_view transform) {
  if (input.size() == 3) return {input[0], input[1], input[2]};
  throw Error(ErrorKind::Usage, fmt::format("data.transforms: {} needs samples of shape [channels, height, "
                                            "width], and these have [{}]",
                                            transform, fmt::join(input, ", ")));
}

std::unique_ptr<Dataset> transformed(std::unique_ptr<Dataset> whole, const plan::DataPlan& plan,
                                     Chance chance, std::uint64_t seed, std::span<const TransformRow> own) {
  if (plan.transforms.empty() || !whole) return whole;
  return std::make_unique<Transformed>(std::move(whole), plan, chance, seed, own);
}

}  // namespace taxon::data
