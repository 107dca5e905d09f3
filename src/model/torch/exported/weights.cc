#include "model/torch/exported/weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace taxon::model::exported {
namespace {

/// In the order of the schema's enumeration, whose first is "unknown".
constexpr at::ScalarType kTypes[] = {
    at::kByte,   at::kChar,        at::kShort,        at::kInt,           at::kLong, at::kHalf,    at::kFloat,
    at::kDouble, at::kComplexHalf, at::kComplexFloat, at::kComplexDouble, at::kBool, at::kBFloat16};

/// Elements of all tensors of a file whose strides let several share memory: expanded ones.
constexpr std::int64_t kMostExpanded = 1 << 26;

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::Data, fmt::format("its tensor {} is damaged: {}", name, why));
}

std::int64_t product(const std::string& name, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) fail(name, "its extents are too large");
  return result;
}

}  // namespace

at::ScalarType scalar_type(ScalarTypeCode code) {
  const int number = static_cast<int>(code);
  if (number < 1 || number > static_cast<int>(std::size(kTypes)))
    throw Error(ErrorKind::Data,
                fmt::format("has tensors of element type {}, which is not known here", number));
  return kTypes[number - 1];
}

at::Tensor Weights::at(const std::string& name) {
  const auto payload = payloads_.find(name);
  if (payload == payloads_.end()) throw Error(ErrorKind::Data, fmt::format("has no values for {}", name));
  const TensorMeta& meta = payload->second.meta;
  std::string key = fmt::format("{} {} {} {}", payload->second.member, meta.storage_offset,
                                static_cast<int>(meta.type), fmt::join(meta.strides, ","));
  for (const auto& size : meta.sizes) key += fmt::format(" {}", *size);
  auto [shared, is_new] = shared_.try_emplace(key);
  if (!is_new) return shared->second;
  const auto [other, is_first] = trained_.try_emplace(payload->second.member, meta.requires_grad);
  if (!is_first && (other->second || meta.requires_grad))
    throw Error(ErrorKind::Data, fmt::format("has {} as a view of a parameter's memory; share the parameter "
                                             "itself instead",
                                             name));
  return shared->second = read(name, payload->second);
}

at::Tensor Weights::read(const std::string& name, const Payload& payload) {
  const TensorMeta& meta = payload.meta;
  const at::ScalarType type = scalar_type(meta.type);
  const std::vector<std::byte>& bytes = archive_.at(payload.member);
  const auto width = static_cast<std::int64_t>(c10::elementSize(type));
  const std::int64_t stored = static_cast<std::int64_t>(bytes.size()) / width;
  if (meta.strides.size() != meta.sizes.size()) fail(name, "it has not as many strides as extents");
  std::int64_t count = 1, last = meta.storage_offset;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    const std::int64_t size = *meta.sizes[i], stride = meta.strides[i];
    if (size < 0 || stride < 0) fail(name, "it has a negative extent or stride");
    count = product(name, count, size);
    if (size > 0 && __builtin_add_overflow(last, product(name, size - 1, stride), &last))
      fail(name, "its extents are too large");
    sizes.push_back(size);
  }
  if (meta.storage_offset < 0) fail(name, "it begins before its memory");
  if (count > 0 && last >= stored)
    fail(name, fmt::format("shape [{}] takes more than the {} elements that the file has of it",
                           fmt::join(sizes, ", "), stored));
  if (count > stored) {
    if (count > kMostExpanded - expanded_) fail(name, "its extents are too large");
    expanded_ += count;
  }
  if (count == 0) return at::empty(sizes, type);
  // from_blob has no const form; only read.
  auto* memory = const_cast<std::byte*>(bytes.data());
  const at::Tensor flat = at::from_blob(memory, {stored}, type);
  at::Tensor own =
      flat.as_strided(sizes, meta.strides, meta.storage_offset).clone(at::MemoryFormat::Contiguous);
  return own.requires_grad_(meta.requires_grad && at::isFloatingType(type));
}

}  // namespace taxon::model::exported
