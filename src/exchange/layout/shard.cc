#include "exchange/layout/shard.h"

#include <algorithm>
#include <utility>

#include "exchange/kernels.h"

namespace taxon::exchange {
namespace {

std::size_t aligned(std::size_t elements) {
  return (elements + kLineElements - 1) / kLineElements * kLineElements;
}

/// Buckets that need one run of memory: one, or all parts of one parameter, which the backward pass writes as
/// a whole.
struct Run {
  std::size_t first = 0, count = 0;  // buckets
  std::size_t size = 0;              // elements
  int lowest = 0, highest = 0;       // segments
  std::size_t begin = 0;             // in the ring
};

std::vector<Run> runs_of(const Layout& layout) {
  std::vector<Run> runs;
  const auto& slots = layout.arena.slots();
  auto starts_slot = [&](const Bucket& bucket) {
    auto slot = std::partition_point(slots.begin(), slots.end(), [&](const tensor::Slot& s) {
      return s.range.begin < bucket.range.begin;
    });
    return slot != slots.end() && slot->range.begin == bucket.range.begin;
  };
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    if (runs.empty() || starts_slot(bucket))
      runs.push_back({b, 0, 0, bucket.segments.front(), bucket.segments.back(), 0});
    Run& run = runs.back();
    ++run.count;
    run.size = aligned(bucket.range.end() - layout.buckets[run.first].range.begin);
  }
  return runs;
}

bool touches(const Run& run, int segment) { return run.lowest <= segment && segment <= run.highest; }
bool overlap(const Run& a, const Run& b) { return a.begin < b.begin + b.size && b.begin < a.begin + a.size; }

/// Lays the runs one after the other and begins again where the capacity ends.
void wind(std::vector<Run>& runs, std::size_t capacity) {
  std::size_t next = 0;
  for (Run& run : runs) {
    if (next + run.size > capacity) next = 0;
    run.begin = next;
    next += run.size;
  }
}

/// False if a run takes memory that an earlier one can't have left when the backward pass comes to the first
/// segment that writes it: it could never go on.
bool can_go_on(const std::vector<Run>& runs) {
  for (std::size_t b = 0; b < runs.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (overlap(runs[a], runs[b]) && runs[a].lowest <= runs[b].highest) return false;
  return true;
}

std::size_t of_a_segment(const std::vector<Run>& runs, int segments) {
  std::size_t most = 0;
  for (int segment = 0; segment < segments; ++segment) {
    std::size_t size = 0;
    for (const Run& run : runs)
      if (touches(run, segment)) size += run.size;
    most = std::max(most, size);
  }
  return most;
}

std::size_t of_a_bucket(const Layout& layout) {
  std::size_t most = 0;
  for (const Bucket& bucket : layout.buckets) most = std::max(most, aligned(bucket.range.size));
  return most;
}

}  // namespace

void own(Layout& layout, const Levels& levels) {
  bool everything = true;
  std::size_t next = 0;
  for (Bucket& bucket : layout.buckets) {
    bucket.owned = bucket.kept = levels.owned(bucket.range);
    everything = everything && bucket.owned == bucket.range;
  }
  for (Bucket& bucket : layout.buckets) {
    bucket.shard = everything ? bucket.range.begin : next;
    next += aligned(bucket.owned.size);
  }
  layout.shard = everything ? layout.arena.size() : next;
}

void lay_out_ring(Layout& layout, int segments, int in_flight) {
  std::vector<Run> runs = runs_of(layout);
  std::size_t all = 0;
  for (const Run& run : runs) all += run.size;
  std::size_t capacity =
      std::min(all, of_a_segment(runs, segments) + static_cast<std::size_t>(in_flight) * of_a_bucket(layout));
  // What does not fit at the end of the ring is skipped, so it may have to be a little larger.
  for (wind(runs, capacity); !can_go_on(runs); wind(runs, capacity))
    capacity = std::min(all, capacity + std::max(kLineElements, aligned(capacity / 16)));
  layout.gradients = capacity;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (std::size_t i = 0; i < runs[r].count; ++i) {
      Bucket& bucket = layout.buckets[runs[r].first + i];
      const Bucket& first = layout.buckets[runs[r].first];
      bucket.gradients = {runs[r].begin + (bucket.range.begin - first.range.begin), bucket.range.size};
      for (std::size_t before = 0; before < r; ++before)
        if (overlap(runs[before], runs[r]))
          for (std::size_t j = 0; j < runs[before].count; ++j)
            bucket.after.push_back(static_cast<int>(runs[before].first + j));
    }
}

namespace {

/// For each segment of a step's passes in their order, forward and back, those whose parameters are there
/// meanwhile: its own and those of the `ahead` next ones.
std::vector<Range> windows(int segments, int ahead) {
  const int last = segments - 1, passes = 2 * last + 1;  // both of the last segment are one
  const auto segment = [last](int pass) { return pass <= last ? pass : 2 * last - pass; };
  std::vector<Range> windows;
  for (int pass = 0; pass < passes; ++pass) {
    const int end = std::min(pass + ahead, passes - 1);
    const int lowest = std::min(segment(pass), segment(end));
    const int highest = pass <= last && end >= last ? last : std::max(segment(pass), segment(end));
    windows.push_back({static_cast<std::size_t>(lowest), static_cast<std::size_t>(highest - lowest + 1)});
  }
  return windows;
}

bool reads_in(const Bucket& bucket, Range window) {
  return std::any_of(bucket.segments.begin(), bucket.segments.end(), [&](int segment) {
    const auto s = static_cast<std::size_t>(segment);
    return window.begin <= s && s < window.end();
  });
}

}  // namespace

void keep_parts(Layout& layout, int segments, int ahead) {
  std::vector<Run> runs = runs_of(layout);
  const std::vector<Range> all = windows(segments, ahead);
  const auto together = [&](const Run& a, const Run& b) {
    return std::any_of(all.begin(), all.end(), [&](Range window) {
      return reads_in(layout.buckets[a.first], window) && reads_in(layout.buckets[b.first], window);
    });
  };
  // The largest first, each behind those in its way that are there at the same time.
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.size > b.size; });
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto collides = [&](const Run& other) {
      return overlap(runs[r], other) && together(runs[r], other);
    };
    const auto placed = runs.begin() + static_cast<std::ptrdiff_t>(r);
    for (auto other = std::find_if(runs.begin(), placed, collides); other != placed;
         other = std::find_if(runs.begin(), placed, collides))
      runs[r].begin = other->begin + other->size;
    layout.gathered = std::max(layout.gathered, runs[r].begin + runs[r].size);
    const std::size_t first = layout.buckets[runs[r].first].range.begin;
    for (std::size_t i = 0; i < runs[r].count; ++i) {
      Bucket& bucket = layout.buckets[runs[r].first + i];
      bucket.gathered = {runs[r].begin + (bucket.range.begin - first), bucket.range.size};
      bucket.kept = {bucket.shard, bucket.owned.size};
    }
  }
}

int gathers_per_step(const Bucket& bucket, int segments, int ahead) {
  int gathers = 0;
  bool is_there = false;
  for (Range window : windows(segments, ahead))
    gathers += !std::exchange(is_there, reads_in(bucket, window)) && is_there;
  return gathers;
}

std::vector<Range> owned_values(const Bucket& bucket, const tensor::ArenaLayout& arena) {
  std::vector<Range> values;
  for (const tensor::Slot& slot : arena.slots()) {
    std::size_t begin = std::max(slot.range.begin, bucket.owned.begin);
    std::size_t end = std::min(slot.range.end(), bucket.owned.end());
    if (begin < end) values.push_back({begin, end - begin});
  }
  return values;
}

}  // namespace taxon::exchange
