#include "data/selection.h"

#include <numeric>

#include "base/check.h"
#include "base/rng.h"

namespace taxon::data {
namespace {

/// Some of a data set's samples.
class Selection final : public Dataset {
 public:
  /// `drawn`: theirs among the samples of `whole`; empty: they are `size` consecutive ones from `first` on.
  Selection(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> drawn, std::int64_t first,
            std::int64_t size)
      : whole_(std::move(whole)), drawn_(std::move(drawn)), first_(first), size_(size) {}
  std::int64_t size() const override { return size_; }
  const SampleShape& shape() const override { return whole_->shape(); }
  void read_parts(std::optional<std::int64_t> epoch, std::span<const std::int64_t> indices,
                  const Rooms& rooms) const override {
    if (!whole_->may_leave_out()) return whole_->read_parts(epoch, in_whole(indices), rooms);
    data::read_usable(
        *whole_, size_, [this](std::int64_t index) { return in_whole(index); }, indices, rooms);
  }
  bool read_usable(std::int64_t index, const Rooms& room) const override {
    return whole_->read_usable(in_whole(index), room);
  }
  bool may_leave_out() const override { return whole_->may_leave_out(); }
  bool is_slow() const override { return whole_->is_slow(); }
  tensor::Cost cost(std::int64_t samples) const override { return whole_->cost(samples); }

 private:
  std::vector<std::int64_t> in_whole(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> there(indices.begin(), indices.end());
    for (std::int64_t& index : there) index = in_whole(index);
    return there;
  }
  std::int64_t in_whole(std::int64_t index) const {
    TAXON_CHECK(index >= 0 && index < size_, "index ", index, " of ", size_);
    return drawn_.empty() ? first_ + index : drawn_[static_cast<std::size_t>(index)];
  }

  const std::shared_ptr<const Dataset> whole_;
  const std::vector<std::int64_t> drawn_;
  const std::int64_t first_, size_;
};

}  // namespace

std::unique_ptr<Dataset> select(std::shared_ptr<const Dataset> whole, Order order, std::uint64_t seed,
                                std::int64_t first, std::int64_t size) {
  TAXON_CHECK(first >= 0 && size >= 0 && first + size <= whole->size(), first, " + ", size);
  std::vector<std::int64_t> drawn;
  if (order == Order::Drawn) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(whole->size()));
    std::iota(all.begin(), all.end(), 0);
    Rng rng(seed, "split order");
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng.below(i)]);
    drawn.assign(all.begin() + first, all.begin() + first + size);
  }
  return std::make_unique<Selection>(std::move(whole), std::move(drawn), first, size);
}

}  // namespace taxon::data
