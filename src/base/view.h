#pragma once

#include <cstddef>
#include <span>

#include "base/check.h"
#include "base/dtype.h"

namespace taxon {

/// Bytes that somebody else owns: a pointer and a size. A *phantom* view has a size and no memory; it may be
/// sent, cut and counted like a real one, and only the bodies of kernels, which never run on phantoms, would
/// look inside.
template <class Byte>
class BasicView {
 public:
  BasicView() = default;
  BasicView(Byte* data, std::size_t size) : data_(data), size_(size) {}
  template <class Other>
  requires std::is_convertible_v<Other*, Byte*> BasicView(BasicView<Other> other)
      : data_(other.data()), size_(other.size()) {}  // NOLINT: a view of const bytes

  static BasicView phantom(std::size_t size) { return BasicView(nullptr, size); }

  Byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool is_phantom() const { return data_ == nullptr && size_ > 0; }

  /// `size` bytes from `offset`. REQUIRES: offset + size <= size().
  BasicView slice(std::size_t offset, std::size_t size) const {
    TAXON_CHECK(offset <= size_ && size <= size_ - offset, "offset=", offset, " size=", size, " of ", size_);
    return BasicView(data_ == nullptr ? nullptr : data_ + offset, size);
  }

 private:
  Byte* data_ = nullptr;
  std::size_t size_ = 0;
};

using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

template <class T>
View as_view(std::span<T> values) {
  return View(reinterpret_cast<std::byte*>(values.data()), values.size_bytes());
}
template <class T>
ConstView as_const_view(std::span<const T> values) {
  return ConstView(reinterpret_cast<const std::byte*>(values.data()), values.size_bytes());
}
/// The elements of a real view. REQUIRES: not phantom, size a multiple of sizeof(T), aligned for T.
template <class T>
std::span<T> as_span(View view) {
  TAXON_CHECK(!view.is_phantom(), "a phantom of ", view.size(), " bytes has no elements");
  TAXON_CHECK(view.size() % sizeof(T) == 0, "size=", view.size());
  return {reinterpret_cast<T*>(view.data()), view.size() / sizeof(T)};
}
template <class T>
std::span<const T> as_span(ConstView view) {
  TAXON_CHECK(!view.is_phantom(), "a phantom of ", view.size(), " bytes has no elements");
  TAXON_CHECK(view.size() % sizeof(T) == 0, "size=", view.size());
  return {reinterpret_cast<const T*>(view.data()), view.size() / sizeof(T)};
}

/// Elements [begin, begin + size) of a flat arena.
struct Range {
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t end() const { return begin + size; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part `index` of `parts` nearly equal, consecutive parts: the first size % parts are one element longer.
/// Every element lies in exactly one part, whatever the sizes. REQUIRES: index < parts.
constexpr Range part(Range whole, std::size_t parts, std::size_t index) {
  std::size_t base = whole.size / parts, longer = whole.size % parts;
  return {whole.begin + index * base + (index < longer ? index : longer), base + (index < longer ? 1 : 0)};
}

}  // namespace taxon
