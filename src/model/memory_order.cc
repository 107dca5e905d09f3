#include "model/memory_order.h"

#include <cstring>
#include <utility>

namespace taxon::model {
namespace {

/// Of each of `matrices`, [rows, columns], the transpose.
void transpose(std::size_t matrices, std::size_t rows, std::size_t columns, DType type, ConstView from,
               View to) {
  dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    const auto source = as_span<T>(from);
    const auto target = as_span<T>(to);
    for (std::size_t m = 0; m < matrices; ++m)
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c)
          target[(m * columns + c) * rows + r] = source[(m * rows + r) * columns + c];
  });
}

enum class Way { ToArena, FromArena };

void move(const ParameterSpec& parameter, DType type, ConstView from, View to, Way way) {
  TAXON_CHECK(from.size() == to.size());
  if (!parameter.channels_last) {
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  const auto extent = [&](std::size_t i) { return static_cast<std::size_t>(parameter.shape.at(i)); };
  std::size_t rows = extent(1), columns = extent(2) * extent(3);  // channels, pixels
  if (way == Way::FromArena) std::swap(rows, columns);
  transpose(extent(0), rows, columns, type, from, to);
}

}  // namespace

void to_arena(const ParameterSpec& parameter, DType type, ConstView values, View arena) {
  move(parameter, type, values, arena, Way::ToArena);
}
void from_arena(const ParameterSpec& parameter, DType type, ConstView arena, View values) {
  move(parameter, type, arena, values, Way::FromArena);
}

}  // namespace taxon::model
