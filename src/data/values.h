#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace taxon::data {

// Samples are made of float32 numbers, of int64 tokens or classes, and of flags: bytes (uint8) of 0 or 1.

/// Elements of one of these types, that somebody else holds.
template <class... Spans>
class TypedSpan {
 public:
  TypedSpan() = default;  // no numbers
  template <class T>
  requires(std::constructible_from<Spans, T> || ...) TypedSpan(T&& elements)
      : elements_(std::forward<T>(elements)) {}
  std::size_t size() const {
    return std::visit([](auto elements) { return elements.size(); }, elements_);
  }
  bool empty() const { return size() == 0; }
  DType type() const {
    constexpr DType kTypes[] = {DType::Float32, DType::Int64, DType::UInt8};
    return kTypes[elements_.index()];
  }
  /// The same as a span. REQUIRES: that type.
  template <class Span>
  Span as() const {
    return std::get<Span>(elements_);
  }
  template <class Body>
  decltype(auto) visit(Body&& body) const {
    return std::visit(std::forward<Body>(body), elements_);
  }

 private:
  std::variant<Spans...> elements_;
};
/// To read, and to be written.
using Values =
    TypedSpan<std::span<const float>, std::span<const std::int64_t>, std::span<const std::uint8_t>>;
using Room = TypedSpan<std::span<float>, std::span<std::int64_t>, std::span<std::uint8_t>>;

inline std::span<const float> numbers(const Values& values) { return values.as<std::span<const float>>(); }
inline std::span<const std::int64_t> whole(const Values& values) {
  return values.as<std::span<const std::int64_t>>();
}
inline std::span<float> numbers(const Room& room) { return room.as<std::span<float>>(); }
inline std::span<std::int64_t> whole(const Room& room) { return room.as<std::span<std::int64_t>>(); }

/// Elements of one type in memory of their own.
class Elements {
 public:
  Elements() = default;  // no numbers
  Elements(std::vector<float> elements) : elements_(std::move(elements)) {}
  Elements(std::vector<std::int64_t> elements) : elements_(std::move(elements)) {}
  Elements(std::vector<std::uint8_t> elements) : elements_(std::move(elements)) {}
  /// As many zeroes.
  Elements(DType type, std::size_t size) {
    if (type == DType::Int64) elements_ = std::vector<std::int64_t>();
    if (type == DType::UInt8) elements_ = std::vector<std::uint8_t>();
    resize(size);
  }
  void resize(std::size_t size) {
    std::visit([size](auto& elements) { elements.resize(size); }, elements_);
  }
  std::size_t size() const { return values().size(); }
  bool empty() const { return values().empty(); }
  std::size_t bytes() const { return size() * size_of(values().type()); }
  Values values() const {
    return std::visit([](const auto& elements) { return Values(std::span(elements)); }, elements_);
  }
  operator Values() const { return values(); }
  Room room(std::size_t begin, std::size_t size) {
    return std::visit([&](auto& elements) { return Room(std::span(elements).subspan(begin, size)); },
                      elements_);
  }

 private:
  std::variant<std::vector<float>, std::vector<std::int64_t>, std::vector<std::uint8_t>> elements_;
};

}  // namespace taxon::data
