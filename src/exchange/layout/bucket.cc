#include "exchange/layout/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace taxon::exchange {
namespace {

/// Lays one recorded bucket after the other.
class Layer {
 public:
  Layer(const std::vector<Tensor>& tensors, DType type)
      : tensors_(tensors), layout_{.arena = tensor::ArenaLayout(type), .tensors = {}, .buckets = {}} {
    for (std::size_t i = 0; i < tensors.size(); ++i) unplaced_[tensors[i].name] = i;
  }

  void add(const plan::BucketPlan& plan) {
    auto id = static_cast<int>(layout_.buckets.size());
    Bucket bucket;
    bucket.id = BucketId(id);
    bucket.name = fmt::format("bucket {} ({})", id, describe(plan));
    if (plan.parameters.empty())
      throw Error(ErrorKind::Mismatch, fmt::format("the recorded bucket {} holds no parameters", id));
    if (plan.part == 0) parts_ = plan.parts;
    if (plan.part != next_part_ || plan.part >= plan.parts || plan.parts != parts_ ||
        (plan.parts > 1 && plan.parameters.size() != 1))
      throw Error(ErrorKind::Mismatch, "the recorded parts of " + describe(plan) + " are not in order",
                  {{}, "", plan.parameters.front()});
    if (plan.part == 0) {
      whole_.begin = layout_.arena.size();
      segments_.clear();
      for (const std::string& name : plan.parameters) place(name);
      whole_.size = layout_.arena.size() - whole_.begin;
      std::sort(segments_.begin(), segments_.end());
      segments_.erase(std::unique(segments_.begin(), segments_.end()), segments_.end());
    } else if (plan.parameters.front() != layout_.arena.slots().back().name) {
      throw Error(ErrorKind::Mismatch, describe(plan) + " does not follow the part before it",
                  {{}, "", plan.parameters.front()});
    }
    next_part_ = plan.part + 1 == plan.parts ? 0 : plan.part + 1;
    bucket.range = bucket.gradients = bucket.owned = bucket.kept = part_of(whole_, plan);
    bucket.shard = bucket.range.begin;
    bucket.segments = segments_;
    layout_.buckets.push_back(std::move(bucket));
  }

  Layout finish() {
    if (!unplaced_.empty())
      throw Error(ErrorKind::Mismatch,
                  "the parameter " + unplaced_.begin()->first + " is in no recorded bucket",
                  {{}, "", unplaced_.begin()->first});
    if (next_part_ != 0) {
      const std::string& name = layout_.arena.slots().back().name;
      throw Error(ErrorKind::Mismatch, "the recorded buckets lack a part of " + name, {{}, "", name});
    }
    layout_.gradients = layout_.shard = layout_.arena.size();
    return std::move(layout_);
  }

 private:
  static std::string describe(const plan::BucketPlan& plan) {
    const auto& names = plan.parameters;
    return names.size() > 1 ? names.front() + " .. " + names.back() : plan::describe(plan);
  }

  void place(const std::string& name) {
    auto found = unplaced_.find(name);
    if (found == unplaced_.end())
      throw Error(ErrorKind::Mismatch,
                  "the recorded buckets name the parameter " + name + ", which this model lacks",
                  {{}, "", name});
    const Tensor& tensor = tensors_[found->second];
    layout_.arena.add(name, tensor.shape);
    layout_.tensors.push_back(static_cast<int>(found->second));
    segments_.push_back(tensor.segment);
    segments_.insert(segments_.end(), tensor.borrowers.begin(), tensor.borrowers.end());
    unplaced_.erase(found);
  }

  /// Parts begin where slots may: at a multiple of the alignment.
  Range part_of(Range whole, const plan::BucketPlan& plan) const {
    const std::size_t line = tensor::ArenaLayout::kAlignment / size_of(layout_.arena.type());
    Range lines = part({0, whole.size / line}, static_cast<std::size_t>(plan.parts),
                       static_cast<std::size_t>(plan.part));
    return {whole.begin + lines.begin * line, lines.size * line};
  }

  const std::vector<Tensor>& tensors_;
  std::map<std::string, std::size_t> unplaced_;  // name -> index into tensors_
  Layout layout_;
  Range whole_;                // of the bucket whose parts are being added
  std::vector<int> segments_;  // that read it
  int next_part_ = 0;
  int parts_ = 1;  // of that bucket
};

/// Buckets of tensors that come one after the other. Two may be open at a time: one of tensors that a codec
/// takes, one of those that are left dense; each stands where its last tensor was.
class Cutter {
 public:
  Cutter(DType type, const plan::ExchangePlan& plan)
      : element_(static_cast<std::int64_t>(size_of(type))),
        bucket_bytes_(plan.bucket_bytes),
        slice_bytes_(plan.slice_bytes) {
    for (const plan::LevelPlan& level : plan.levels)
      if (level.codec.global) bucket_bytes_ = slice_bytes_ = std::numeric_limits<std::int64_t>::max();
    if (plan.gradients != plan::GradientMemory::Whole)
      return;  // a ring's buckets end in the order in which they begin
    for (const plan::LevelPlan& level : plan.levels)
      if (level.codec.name != "none") dense_below_ = std::max(dense_below_, level.codec.dense_below);
  }

  void add(const Tensor& tensor) {
    if (std::exchange(apart_, tensor.apart) != tensor.apart) {
      close(large_);
      close(small_);
    }
    const std::int64_t bytes = tensor.count() * element_;
    if (tensor.factors > 0) {
      close(large_);
      plan::BucketPlan& bucket = buckets_.emplace_back();
      bucket.parameters = {tensor.name};
      bucket.bytes = bytes;
      bucket.factors = tensor.factors;
    } else if (bytes > slice_bytes_) {
      close(large_);
      slice(tensor);
    } else if (room_of(tensor) < dense_below_) {
      if (small_room_ + room_of(tensor) >= dense_below_) close(small_);
      small_room_ = small_.parameters.empty() ? room_of(tensor) : small_room_ + room_of(tensor);
      join(small_, tensor.name, bytes);
    } else {
      join(large_, tensor.name, bytes);
    }
  }

  std::vector<plan::BucketPlan> finish() {
    close(large_);
    close(small_);
    return std::move(buckets_);
  }

 private:
  void join(plan::BucketPlan& open, const std::string& name, std::int64_t bytes) {
    if (open.bytes + bytes > bucket_bytes_) close(open);
    open.parameters.push_back(name);
    open.bytes += bytes;
  }

  void close(plan::BucketPlan& open) {
    if (!open.parameters.empty()) buckets_.push_back(std::exchange(open, {}));
  }

  void slice(const Tensor& tensor) {
    const std::int64_t bytes = tensor.count() * element_;
    const auto parts = static_cast<std::size_t>((bytes + slice_bytes_ - 1) / slice_bytes_);
    for (std::size_t i = 0; i < parts; ++i) {
      const Range range = part({0, static_cast<std::size_t>(tensor.count())}, parts, i);
      plan::BucketPlan& bucket = buckets_.emplace_back();
      bucket.parameters = {tensor.name};
      bucket.part = static_cast<int>(i);
      bucket.parts = static_cast<int>(parts);
      bucket.bytes = static_cast<std::int64_t>(range.size) * element_;
    }
  }

  /// Elements of its place in the arena.
  std::int64_t room_of(const Tensor& tensor) const {
    const std::int64_t line = static_cast<std::int64_t>(tensor::ArenaLayout::kAlignment) / element_;
    return (tensor.count() + line - 1) / line * line;
  }

  const std::int64_t element_;
  std::int64_t bucket_bytes_, slice_bytes_;
  std::int64_t dense_below_ = 0;
  plan::BucketPlan large_, small_;  // open ones
  std::int64_t small_room_ = 0;     // elements of small_
  int apart_ = 0;                   // of the tensor before
  std::vector<plan::BucketPlan> buckets_;
};

}  // namespace

std::int64_t Tensor::count() const {
  std::int64_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  return n;
}

std::vector<plan::BucketPlan> cut_buckets(const std::vector<Tensor>& tensors, DType type,
                                          const plan::ExchangePlan& plan) {
  Cutter cutter(type, plan);
  for (const Tensor& tensor : tensors) cutter.add(tensor);
  return cutter.finish();
}

std::vector<plan::BucketPlan> cut_buckets(const std::vector<Tensor>& tensors, const plan::Plan& plan,
                                          Slices slices) {
  // The first piece comes before any answer and the last answer after any piece: so much is lost.
  constexpr std::int64_t kPieces = 24;
  constexpr std::int64_t kLeastPiece = 64 << 10;  // below, messages cost more than that
  plan::ExchangePlan sizes = plan.exchange;
  const DType type = plan.precision.master;
  if (plan.mesh.servers > 0) {
    std::int64_t bytes = 0;
    for (const Tensor& tensor : tensors) bytes += tensor.count() * static_cast<std::int64_t>(size_of(type));
    const std::int64_t piece = std::max(kLeastPiece, bytes / kPieces);
    sizes.bucket_bytes = std::min(sizes.bucket_bytes, piece);
    sizes.slice_bytes = std::min(sizes.slice_bytes, piece);
  }
  if (slices == Slices::None) sizes.slice_bytes = std::numeric_limits<std::int64_t>::max();
  return cut_buckets(tensors, type, sizes);
}

Layout lay_out(const std::vector<Tensor>& tensors, const std::vector<plan::BucketPlan>& buckets, DType type) {
  Layer layer(tensors, type);
  for (const plan::BucketPlan& bucket : buckets) layer.add(bucket);
  return layer.finish();
}

}  // namespace taxon::exchange
