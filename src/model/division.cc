#include "model/division.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "base/error.h"

namespace taxon::model {

void check_stages(const ModelSpec& whole, const Division& division) {
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

namespace {

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

std::size_t segment_of(const BufferSpec& buffer, const ModelSpec& whole) {
  if (buffer.segment >= 0) return static_cast<std::size_t>(buffer.segment);
  for (std::size_t s = 0; s < whole.segments.size(); ++s)
    if (buffer.name.starts_with(whole.segments[s].name + ".")) return s;
  return 0;
}

}  // namespace

HeldStages held_stages(const ModelSpec& whole, const Division& division,
                       const std::vector<std::vector<int>>& borrowed) {
  check_stages(whole, division);
  const std::vector<std::vector<int>> reads = all_reads(whole, borrowed);
  HeldStages held;
  ModelSpec& spec = held.spec;
  spec.name = whole.name;
  spec.task = whole.task;
  spec.members = whole.members;
  spec.member = whole.member;
  spec.largest_batch = whole.largest_batch;
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
        if (at != held.parameters.end()) {
          spec.segments.back().borrowed.push_back(index);
          continue;
        }
        held.parameters.push_back(p);
        spec.segments.back().parameters.push_back(index);
        spec.parameters.push_back(whole.parameters[static_cast<std::size_t>(p)]);
        if (auto stages = stages_that_use(p, division, reads); stages.size() > 1)
          spec.parameters.back().stages = std::move(stages);
      }
      for (std::size_t b = 0; b < whole.buffers.size(); ++b)
        if (segment_of(whole.buffers[b], whole) == s) {
          held.buffers.push_back(static_cast<int>(b));
          spec.buffers.push_back(whole.buffers[b]);
          spec.buffers.back().segment = static_cast<int>(spec.segments.size()) - 1;
        }
    }
  }
  return held;
}

Division in_steps(const Division& division, std::span<const std::size_t> steps) {
  Division divided = division;
  std::size_t begin = 0;
  for (Range& stage : divided.stages) {
    const auto of_stage = steps.subspan(stage.begin, stage.size);
    stage = {begin, std::accumulate(of_stage.begin(), of_stage.end(), std::size_t{0})};
    begin = stage.end();
  }
  return divided;
}

FeatureChange feature_change(parallel::Movement movement, bool from_samples, bool to_samples) {
  switch (movement) {
    case parallel::Movement::AllGather:
      return from_samples ? FeatureChange::None : FeatureChange::Gathered;
    case parallel::Movement::Slice:
    case parallel::Movement::ReduceScatter:
      return to_samples ? FeatureChange::None : FeatureChange::Parted;
    case parallel::Movement::AllToAll:
      return from_samples ? FeatureChange::Parted : FeatureChange::Gathered;
    case parallel::Movement::None:
    case parallel::Movement::AllReduce:
      break;
  }
  return FeatureChange::None;
}

namespace {

/// What lies in front of a segment of a stage.
struct Before {
  parallel::Boundary boundary;
  bool left_by_samples = false, taken_by_samples = false;
  bool moves() const {
    return boundary.forward != parallel::Movement::None || boundary.backward != parallel::Movement::None;
  }
};

/// Adds pieces of one stage, segment by segment.
class StageCutter {
 public:
  StageCutter(std::vector<Piece>& pieces, int stage, const Division& division)
      : pieces_(pieces), stage_(stage), members_(division.members), apart_(division.segments_apart) {}

  /// `taken`: elements of a sample that came to it; 0: the data set's.
  void add(const Before& before, Range segments, std::int64_t taken, std::int64_t outputs) {
    if (before.moves() && begins_)
      append({stage_, {segments.begin, 0}, taken, taken, before.left_by_samples});
    if (begins_ || before.moves() || (apart_ && segments.size > 0)) {
      std::int64_t inputs = taken;
      switch (feature_change(before.boundary.forward, before.left_by_samples, before.taken_by_samples)) {
        case FeatureChange::Gathered:
          inputs *= members_;
          break;
        case FeatureChange::Parted:
          inputs /= members_;
          break;
        case FeatureChange::None:
          break;
      }
      if (!begins_) {
        pieces_.back().forward = before.boundary.forward;
        pieces_.back().backward = before.boundary.backward;
      }
      append({stage_, {segments.begin, 0}, inputs, 0, before.taken_by_samples});
    }
    pieces_.back().segments.size += segments.size;
    pieces_.back().outputs = outputs;
  }

 private:
  void append(Piece piece) {
    pieces_.push_back(piece);
    begins_ = false;
  }

  std::vector<Piece>& pieces_;
  const int stage_, members_;
  const bool apart_;
  bool begins_ = true;
};

Before boundary_before(std::size_t segment, const ModelSpec& whole,
                       std::span<const parallel::SplitRow* const> rows) {
  const parallel::SplitRow& all_have_all = parallel::find_split("none");
  const bool ends = segment == rows.size();
  const parallel::SplitRow& consumer = ends ? all_have_all : *rows[segment];
  const parallel::SplitRow& producer = segment == 0 ? all_have_all : *rows[segment - 1];
  const auto found = parallel::boundary(producer, consumer);
  // Samples are every member's, who may take some of them; they have no gradient.
  const bool takes_data = segment == 0 && (consumer.input == parallel::kReplicated || consumer.by_samples());
  if (!found || (segment == 0 && !takes_data))
    throw Error(ErrorKind::Usage,
                fmt::format("model {}: {}, split by {}, can't come after {}, split by {}", whole.name,
                            ends ? "the loss" : whole.segments[segment].name, consumer.name,
                            segment == 0 ? "the samples" : whole.segments[segment - 1].name, producer.name));
  for (const parallel::SplitRow* row : {&producer, &consumer})
    TAXON_CHECK((row->output == parallel::kBySamples) == row->by_samples(), row->name);
  if (segment == 0) return {{}, consumer.by_samples(), consumer.by_samples()};
  return {*found, producer.by_samples(), consumer.by_samples()};
}

}  // namespace

void cut_pieces(HeldStages& held, const ModelSpec& whole, const Division& division,
                std::span<const parallel::SplitRow* const> rows) {
  held.pieces.clear();
  std::vector<Before> before;
  for (std::size_t s = 0; s <= rows.size(); ++s) before.push_back(boundary_before(s, whole, rows));
  std::size_t at = 0;  // segment of the held ones
  for (int stage : division.held) {
    const Range range = division.stages[static_cast<std::size_t>(stage)];
    StageCutter cutter(held.pieces, stage, division);
    const auto left_by = [&](std::size_t s) { return s == 0 ? 0 : whole.segments[s - 1].outputs; };
    for (std::size_t s = range.begin; s < range.end(); ++s)
      cutter.add(before[s], {at++, 1}, left_by(s), left_by(s + 1));
    // Logits come to the loss whole.
    if (range.end() == rows.size()) cutter.add(before.back(), {at, 0}, left_by(range.end()), 0);
  }
}

std::vector<Range> part_of_whole(std::span<const std::int64_t> shape, int split, int blocks, int members,
                                 int member) {
  const auto product = [](std::span<const std::int64_t> extents) {
    return static_cast<std::size_t>(
        std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>()));
  };
  if (split < 0) return {{0, product(shape)}};
  const auto dimension = static_cast<std::size_t>(split), of = static_cast<std::size_t>(members);
  const std::size_t run = product(shape.subspan(dimension)) / static_cast<std::size_t>(blocks);
  const std::size_t runs = product(shape.first(dimension)) * static_cast<std::size_t>(blocks);
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < runs; ++i)
    ranges.push_back({(i * of + static_cast<std::size_t>(member)) * run, run});
  return ranges;
}

}  // namespace taxon::model
