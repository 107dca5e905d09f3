#include "exchange/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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
    if (plan.part != next_part_ || plan.part >= plan.parts || (plan.parts > 1 && plan.parameters.size() != 1))
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
    bucket.range = bucket.gradients = bucket.owned = part_of(whole_, plan);
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
};

}  // namespace

std::int64_t Tensor::count() const {
  std::int64_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  return n;
}

std::vector<plan::BucketPlan> cut_buckets(const std::vector<Tensor>& tensors, DType type,
                                          const plan::ExchangePlan& plan) {
  std::vector<plan::BucketPlan> buckets;
  auto element = static_cast<std::int64_t>(size_of(type));
  bool open = false;  // more may join the last bucket
  for (const Tensor& tensor : tensors) {
    std::int64_t bytes = tensor.count() * element;
    if (tensor.factors > 0) {
      plan::BucketPlan bucket;
      bucket.parameters = {tensor.name};
      bucket.bytes = bytes;
      bucket.factors = tensor.factors;
      buckets.push_back(std::move(bucket));
      open = false;
      continue;
    }
    if (bytes > plan.slice_bytes) {
      auto parts = static_cast<std::size_t>((bytes + plan.slice_bytes - 1) / plan.slice_bytes);
      for (std::size_t i = 0; i < parts; ++i) {
        Range range = part({0, static_cast<std::size_t>(tensor.count())}, parts, i);
        plan::BucketPlan bucket;
        bucket.parameters = {tensor.name};
        bucket.part = static_cast<int>(i);
        bucket.parts = static_cast<int>(parts);
        bucket.bytes = static_cast<std::int64_t>(range.size) * element;
        buckets.push_back(std::move(bucket));
      }
      open = false;
      continue;
    }
    if (!open || buckets.back().bytes + bytes > plan.bucket_bytes) buckets.emplace_back();
    open = true;
    buckets.back().parameters.push_back(tensor.name);
    buckets.back().bytes += bytes;
  }
  return buckets;
}

std::vector<plan::BucketPlan> cut_buckets(const std::vector<Tensor>& tensors, const plan::Plan& plan) {
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
  return cut_buckets(tensors, type, sizes);
}

Layout lay_out(const std::vector<Tensor>& tensors, const std::vector<plan::BucketPlan>& buckets, DType type) {
  Layer layer(tensors, type);
  for (const plan::BucketPlan& bucket : buckets) layer.add(bucket);
  return layer.finish();
}

}  // namespace taxon::exchange
