// Light optimisation vectorises only loops of known length. Copies stay loops: what the library's memcpy does
// with a few kilobytes (rep movsb) takes four times as long into lines that another core has read.
#pragma GCC optimize("O3,no-tree-loop-distribute-patterns")

#include "comm/sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/isa.h"

namespace taxon::comm {
namespace {

/// The type that a sum is kept in, and the way to it and back.
template <class T>
struct Lanes {  // also for a plain copy of bytes
  using Sum = T;
  static TAXON_INLINE T load(T value) { return value; }
  static TAXON_INLINE T store(T value) { return value; }
};
template <>
struct Lanes<BFloat16> {
  using Sum = float;
  static TAXON_INLINE float load(BFloat16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
  }
  /// BFloat16(float) without its branch, so that it vectorises.
  static TAXON_INLINE BFloat16 store(float value) {
    auto word = std::bit_cast<std::uint32_t>(value);
    std::uint32_t nan = (word >> 16) | 0x40U;
    std::uint32_t rounded = (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
    BFloat16 result;
    result.bits = static_cast<std::uint16_t>((word & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
    return result;
  }
};

/// Elements that are summed at a time when there are too many sources for registers: they stay in the first
/// cache.
constexpr std::size_t kPiece = 1024;

/// Few sources: one loop that loads all and stores all.
template <class T, std::size_t kSources, std::size_t kTargets>
TAXON_INLINE void sum_few(T* const* targets, const T* const* sources, std::size_t count) {
  std::array<const T*, kSources> from;
  std::array<T*, kTargets> to;
  for (std::size_t s = 0; s < kSources; ++s) from[s] = sources[s];
  for (std::size_t t = 0; t < kTargets; ++t) to[t] = targets[t];
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    typename Lanes<T>::Sum sum = Lanes<T>::load(from[0][i]);
    for (std::size_t s = 1; s < kSources; ++s) sum += Lanes<T>::load(from[s][i]);
    T value = Lanes<T>::store(sum);
    for (std::size_t t = 0; t < kTargets; ++t) to[t][i] = value;
  }
}

template <class T>
TAXON_INLINE void sum_many(std::span<T* const> targets, std::span<const T* const> sources,
                           std::size_t count) {
  typename Lanes<T>::Sum sum[kPiece];
  T value[kPiece];
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    std::size_t size = std::min(kPiece, count - begin);
    const T* first = sources[0] + begin;
    for (std::size_t i = 0; i < size; ++i) sum[i] = Lanes<T>::load(first[i]);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      const T* source = sources[s] + begin;
      for (std::size_t i = 0; i < size; ++i) sum[i] += Lanes<T>::load(source[i]);
    }
    for (std::size_t i = 0; i < size; ++i) value[i] = Lanes<T>::store(sum[i]);
    for (T* target : targets)
      for (std::size_t i = 0; i < size; ++i) target[begin + i] = value[i];
  }
}

template <class T>
TAXON_INLINE void sum_any(std::span<T* const> targets, std::span<const T* const> sources, std::size_t count) {
  const bool one = targets.size() == 1, all = targets.size() == sources.size();
  switch (sources.size()) {
    case 1:
      for (T* target : targets) sum_few<T, 1, 1>(&target, sources.data(), count);
      return;
    case 2:
      if (one) return sum_few<T, 2, 1>(targets.data(), sources.data(), count);
      if (all) return sum_few<T, 2, 2>(targets.data(), sources.data(), count);
      break;
    case 3:
      if (one) return sum_few<T, 3, 1>(targets.data(), sources.data(), count);
      if (all) return sum_few<T, 3, 3>(targets.data(), sources.data(), count);
      break;
    case 4:
      if (one) return sum_few<T, 4, 1>(targets.data(), sources.data(), count);
      if (all) return sum_few<T, 4, 4>(targets.data(), sources.data(), count);
      break;
    default:
      break;
  }
  sum_many<T>(targets, sources, count);
}

template <class T>
using SumFunction = void (*)(std::span<T* const>, std::span<const T* const>, std::size_t);

template <class T>
void sum_base(std::span<T* const> targets, std::span<const T* const> sources, std::size_t count) {
  sum_any<T>(targets, sources, count);
}

#if defined(__x86_64__)
template <class T>
__attribute__((target("avx2"))) void sum_avx2(std::span<T* const> targets, std::span<const T* const> sources,
                                              std::size_t count) {
  sum_any<T>(targets, sources, count);
}
template <class T>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"))) void sum_avx512(
    std::span<T* const> targets, std::span<const T* const> sources, std::size_t count) {
  sum_any<T>(targets, sources, count);
}
template <class T>
SumFunction<T> best() {
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return sum_avx512<T>;
  return __builtin_cpu_supports("avx2") ? sum_avx2<T> : sum_base<T>;
}
#else
template <class T>
SumFunction<T> best() {
  return sum_base<T>;
}
#endif

/// Pointers to a few ranges without the heap.
template <class Pointer>
class Pointers {
 public:
  template <class Views>
  explicit Pointers(const Views& views) : size_(views.size()) {
    Pointer* to = few_.data();
    if (size_ > few_.size()) {
      many_.resize(size_);
      to = many_.data();
    }
    for (std::size_t i = 0; i < size_; ++i) to[i] = reinterpret_cast<Pointer>(views[i].data());
    data_ = to;
  }
  std::span<const Pointer> span() const { return {data_, size_}; }

 private:
  std::size_t size_;
  std::array<Pointer, 16> few_;
  std::vector<Pointer> many_;
  Pointer* data_;
};

template <class T>
void sum_bytes(std::span<T* const> targets, std::span<const T* const> sources, std::size_t bytes) {
  static const SumFunction<T> sum = best<T>();
  if (bytes > 0) sum(targets, sources, bytes / sizeof(T));
}

template <class Views>
void check_views(DType type, std::size_t bytes, const Views& views) {
  TAXON_CHECK(is_floating(type), to_string(type));
  TAXON_CHECK(!views.empty() && bytes % size_of(type) == 0, "bytes=", bytes);
  for (const auto& view : views)
    TAXON_CHECK(view.size() == bytes && !view.is_phantom(), view.size(), " bytes beside ", bytes);
}

}  // namespace

void sum_into(DType type, View target, std::span<const ConstView> sources) {
  check_views(type, target.size(), sources);
  dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    T* to = reinterpret_cast<T*>(target.data());
    Pointers<const T*> from(sources);
    sum_bytes<T>(std::span<T* const>(&to, 1), from.span(), target.size());
  });
}

void sum_everywhere(DType type, std::span<const View> members) {
  check_views(type, members.empty() ? 0 : members[0].size(), members);
  dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    Pointers<T*> to(members);
    Pointers<const T*> from(members);
    sum_bytes<T>(to.span(), from.span(), members[0].size());
  });
}

void copy_into(View target, ConstView source) {
  TAXON_CHECK(target.size() == source.size() && !target.is_phantom() && !source.is_phantom(), target.size(),
              " bytes from ", source.size());
  auto* to = reinterpret_cast<std::uint8_t*>(target.data());
  auto* from = reinterpret_cast<const std::uint8_t*>(source.data());
  sum_bytes<std::uint8_t>(std::span<std::uint8_t* const>(&to, 1),
                          std::span<const std::uint8_t* const>(&from, 1), target.size());
}

}  // namespace taxon::comm
