#include "model/division.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace taxon::model {
namespace {

void check(const ModelSpec& whole, const Division& division) {
  const std::size_t segments = whole.segments.size();
  if (division.stages.size() > segments)
    throw Error(ErrorKind::Usage,
                fmt::format("model {} has {} segments, which {} stages can't share; take fewer", whole.name,
                            segments, division.stages.size()));
  std::size_t next = 0;
  for (Range stage : division.stages) {
    TAXON_CHECK(stage.begin == next && stage.size > 0, "stage ", stage.begin, " + ", stage.size, " after ",
                next);
    next = stage.end();
    if (next < segments && whole.segments[next - 1].outputs <= 0)
      throw Error(
          ErrorKind::Usage,
          fmt::format("model {} can't be cut after {}: it is not known how many numbers leave it; make "
                      "the profile again (taxon profile)",
                      whole.name, whole.segments[next - 1].name));
  }
  TAXON_CHECK(next == segments && !division.held.empty(), "stages have ", next, " of ", segments,
              " segments");
}

/// What each segment reads.
std::vector<std::vector<int>> all_reads(const ModelSpec& whole,
                                        const std::vector<std::vector<int>>& borrowed) {
  std::vector<std::vector<int>> reads;
  for (std::size_t s = 0; s < whole.segments.size(); ++s) {
    reads.push_back(whole.segments[s].parameters);
    if (s < borrowed.size()) reads[s].insert(reads[s].end(), borrowed[s].begin(), borrowed[s].end());
  }
  return reads;
}

std::vector<int> stages_that_use(int parameter, const Division& division,
                                 const std::vector<std::vector<int>>& reads) {
  std::set<int> stages;
  for (std::size_t stage = 0; stage < division.stages.size(); ++stage)
    for (std::size_t s = division.stages[stage].begin; s < division.stages[stage].end(); ++s)
      if (std::count(reads[s].begin(), reads[s].end(), parameter) > 0) stages.insert(static_cast<int>(stage));
  return {stages.begin(), stages.end()};
}

std::size_t segment_of_buffer(const ModelSpec& whole, const std::string& name) {
  for (std::size_t s = 0; s < whole.segments.size(); ++s)
    if (name.starts_with(whole.segments[s].name + ".")) return s;
  return 0;
}

}  // namespace

HeldStages held_stages(const ModelSpec& whole, const Division& division,
                       const std::vector<std::vector<int>>& borrowed) {
  check(whole, division);
  const std::vector<std::vector<int>> reads = all_reads(whole, borrowed);
  HeldStages held;
  ModelSpec& spec = held.spec;
  spec.name = whole.name;
  spec.task = whole.task;
  for (int stage : division.held) {
    const Range range = division.stages[static_cast<std::size_t>(stage)];
    const bool ends = range.end() == whole.segments.size();
    held.pieces.push_back({.stage = stage,
                           .segments = {spec.segments.size(), range.size},
                           .inputs = range.begin == 0 ? 0 : whole.segments[range.begin - 1].outputs,
                           .outputs = ends ? 0 : whole.segments[range.end() - 1].outputs});
    for (std::size_t s = range.begin; s < range.end(); ++s) {
      held.segments.push_back(static_cast<int>(s));
      spec.segments.push_back(whole.segments[s]);
      spec.segments.back().parameters.clear();
      held.reads.emplace_back();
      for (int p : reads[s]) {
        auto at = std::find(held.parameters.begin(), held.parameters.end(), p);
        const auto index = static_cast<int>(at - held.parameters.begin());
        held.reads.back().push_back(index);
        if (at != held.parameters.end()) continue;
        held.parameters.push_back(p);
        spec.segments.back().parameters.push_back(index);
        spec.parameters.push_back(whole.parameters[static_cast<std::size_t>(p)]);
        if (auto stages = stages_that_use(p, division, reads); stages.size() > 1)
          spec.parameters.back().stages = std::move(stages);
      }
      for (std::size_t b = 0; b < whole.buffers.size(); ++b)
        if (segment_of_buffer(whole, whole.buffers[b].name) == s) {
          held.buffers.push_back(static_cast<int>(b));
          spec.buffers.push_back(whole.buffers[b]);
        }
    }
  }
  return held;
}

}  // namespace taxon::model
