#include "data/split.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace taxon::data {
namespace {

/// Consecutive samples of a data set.
class Section final : public Dataset {
 public:
  Section(std::shared_ptr<const Dataset> whole, std::int64_t first, std::int64_t size)
      : whole_(std::move(whole)), first_(first), size_(size) {}
  std::int64_t size() const override { return size_; }
  const SampleShape& shape() const override { return whole_->shape(); }
  void read(std::span<const std::int64_t> indices, std::span<float> inputs,
            std::span<std::int64_t> labels) const override {
    std::vector<std::int64_t> there(indices.begin(), indices.end());
    for (std::int64_t& index : there) {
      TAXON_CHECK(index >= 0 && index < size_, "index ", index, " of ", size_);
      index += first_;
    }
    whole_->read(there, inputs, labels);
  }
  tensor::Cost cost(std::int64_t samples) const override { return whole_->cost(samples); }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const std::int64_t first_, size_;
};

}  // namespace

Datasets open_split(const plan::Plan& plan, const Storage& storage) {
  Datasets datasets = open_datasets(plan.data, storage);
  const std::int64_t aside = plan.data.validation, size = datasets.train->size();
  if (aside == 0) return datasets;
  if (aside >= size)
    throw Error(ErrorKind::Usage,
                fmt::format("data.validation: it is {}, and there are {} training samples; leave some to "
                            "train on",
                            aside, size));
  const std::shared_ptr<const Dataset> whole = std::move(datasets.train);
  datasets.train = std::make_unique<Section>(whole, 0, size - aside);
  if (plan.evaluation.split == plan::Split::Validation)
    datasets.test = std::make_unique<Section>(whole, size - aside, aside);
  return datasets;
}

}  // namespace taxon::data
