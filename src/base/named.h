#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace taxon {

/// An integer with a name: a rank is not a bucket and neither converts silently to a number.
template <class T, class Tag>
class Named {
 public:
  using value_type = T;
  constexpr Named() = default;
  constexpr explicit Named(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  friend constexpr auto operator<=>(Named, Named) = default;

 private:
  T value_ = 0;
};

/// Position of a process in the job, 0 .. world size - 1.
using Rank = Named<std::int32_t, struct RankTag>;
/// Index of a bucket in the order in which the backward pass completes them.
using BucketId = Named<std::int32_t, struct BucketTag>;

}  // namespace taxon

template <class T, class Tag>
struct std::hash<taxon::Named<T, Tag>> {
  std::size_t operator()(taxon::Named<T, Tag> named) const { return std::hash<T>()(named.value()); }
};
