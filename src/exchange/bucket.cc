#include "exchange/bucket.h"

#include <fmt/format.h>

#include <map>

namespace taxon::exchange {

std::int64_t Tensor::count() const {
  std::int64_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  return n;
}

std::vector<plan::BucketPlan> cut_buckets(const std::vector<Tensor>& tensors, DType type,
                                          std::int64_t bucket_bytes) {
  std::vector<plan::BucketPlan> buckets;
  for (const Tensor& tensor : tensors) {
    std::int64_t bytes = tensor.count() * static_cast<std::int64_t>(size_of(type));
    if (buckets.empty() || buckets.back().bytes + bytes > bucket_bytes) buckets.emplace_back();
    buckets.back().parameters.push_back(tensor.name);
    buckets.back().bytes += bytes;
  }
  return buckets;
}

Layout lay_out(const std::vector<Tensor>& tensors, const std::vector<plan::BucketPlan>& buckets, DType type) {
  std::map<std::string, int> index;
  for (std::size_t i = 0; i < tensors.size(); ++i) index[tensors[i].name] = static_cast<int>(i);
  Layout layout{tensor::ArenaLayout(type), {}, {}, {}};
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    std::size_t begin = layout.arena.size();
    for (const std::string& name : buckets[b].parameters) {
      auto found = index.find(name);
      if (found == index.end())
        throw Error(ErrorKind::Mismatch,
                    "the recorded buckets name the parameter " + name + ", which this model lacks",
                    {{}, "", name});
      layout.arena.add(name, tensors[static_cast<std::size_t>(found->second)].shape);
      layout.tensors.push_back(found->second);
      layout.bucket_of.push_back(static_cast<int>(b));
      index.erase(found);
    }
    const auto& names = buckets[b].parameters;
    layout.buckets.push_back(
        {BucketId(static_cast<int>(b)),
         {begin, layout.arena.size() - begin},
         fmt::format("bucket {} ({}{})", b, names.front(), names.size() > 1 ? " .. " + names.back() : ""),
         nullptr});
  }
  if (!index.empty())
    throw Error(ErrorKind::Mismatch, "the parameter " + index.begin()->first + " is in no recorded bucket",
                {{}, "", index.begin()->first});
  return layout;
}

}  // namespace taxon::exchange
