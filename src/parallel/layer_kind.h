#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace taxon::parallel {

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// A layer of a framework, as far as a split needs to know it.
struct LayerFacts {
  std::string type;  // its class, in full
  std::vector<NamedShape> parameters, buffers;
  std::vector<std::int64_t> inputs;  // of one sample; the first extent counts samples
};

/// Layers that can be split alike, described: which rows of split.h members can have parts or samples of them
/// by. A layer is of the first kind that has it.
struct LayerKind {
  std::string_view name;
  std::string_view sentence;
  bool (*has)(const LayerFacts&) = nullptr;
  /// Names of rows, those that are taken first of equally good ones first. "none" can always be asked for,
  /// and is a choice beside others where it stands here.
  std::vector<std::string_view> splits;
};

}  // namespace taxon::parallel
