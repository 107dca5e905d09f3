#pragma once

#include <string_view>
#include <utility>

#include "base/dtype.h"

namespace taxon::data {

/// "int64:words" names `words`, whose elements are taken as that type; "bool:" are flags, and without a type
/// they are float32.
inline std::pair<DType, std::string_view> typed(std::string_view name) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"float32:", DType::Float32}, {"int64:", DType::Int64}, {"bool:", DType::UInt8}};
  for (const auto& [word, type] : kTypes)
    if (name.starts_with(word)) return {type, name.substr(word.size())};
  return {DType::Float32, name};
}

}  // namespace taxon::data
