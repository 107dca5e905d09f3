#include "parallel/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/units.h"
#include "program/check.h"

namespace taxon::parallel {
namespace {

double transfer(const CutOptions& options, double bytes) {
  return options.bandwidth > 0 ? options.latency + bytes / options.bandwidth : 0;
}

int of_stage(const std::vector<int>& numbers, int stage) {
  return numbers.empty() ? 1 : numbers[static_cast<std::size_t>(stage)];
}

void add(StageUse& use, const SegmentCost& segment, const CutOptions& options, int stage) {
  use.compute += segment.compute;
  use.bytes += program::weight_copies(of_stage(options.versions, stage)) * segment.weight_bytes +
               segment.state_bytes + of_stage(options.held, stage) * segment.activation_bytes;
}

/// The stage's link sends activations on and gradients back, and receives as much.
void add_transfers(StageUse& use, std::span<const SegmentCost> segments, const CutOptions& options) {
  use.transfer = 0;
  if (use.last + 1 < static_cast<int>(segments.size()))
    use.transfer += transfer(options, segments[static_cast<std::size_t>(use.last)].output_bytes);
  if (use.first > 0)
    use.transfer += transfer(options, segments[static_cast<std::size_t>(use.first) - 1].output_bytes);
  use.seconds = options.transfers == CutOptions::Transfers::Beside ? std::max(use.compute, use.transfer)
                                                                   : use.compute + use.transfer;
}

constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// Why no cut fits: the segment, or all of them, that need more than there is.
[[noreturn]] void refuse(std::span<const SegmentCost> segments, const CutOptions& options) {
  const int last_stage = options.stages - 1;
  double all = 0;
  for (int i = 0; i < static_cast<int>(segments.size()); ++i) {
    const double alone = stage_use(segments, options, last_stage, i, i).bytes;
    if (alone > options.memory)
      throw Error(ErrorKind::Usage, fmt::format("segment {} alone needs {} of the {} that a worker has",
                                                segments[static_cast<std::size_t>(i)].name,
                                                format_bytes(alone), format_bytes(options.memory)));
    all += alone;
  }
  throw Error(ErrorKind::Usage,
              fmt::format("no cut into {} stages fits: the segments need at least {}, and {} workers of {} "
                          "have {}; more stages, smaller micro-batches or a schedule that keeps fewer may",
                          options.stages, format_bytes(all), options.stages, format_bytes(options.memory),
                          format_bytes(options.memory * options.stages)));
}

}  // namespace

StageUse stage_use(std::span<const SegmentCost> segments, const CutOptions& options, int stage, int first,
                   int last) {
  StageUse use{.first = first, .last = last};
  for (int i = last; i >= first; --i) add(use, segments[static_cast<std::size_t>(i)], options, stage);
  add_transfers(use, segments, options);
  return use;
}

std::vector<StageUse> cut_stages(std::span<const SegmentCost> segments, const CutOptions& options) {
  const int count = static_cast<int>(segments.size());
  if (options.stages < 1 || count < options.stages)
    throw Error(ErrorKind::Usage,
                fmt::format("{} segments cannot be cut into {} stages", count, options.stages));
  // slowest[k][j]: of the best cut of the first j segments into k stages; begin[k][j]: where its last begins.
  const auto stages = static_cast<std::size_t>(options.stages);
  const auto width = static_cast<std::size_t>(count) + 1;
  std::vector<std::vector<double>> slowest(stages + 1, std::vector<double>(width, kImpossible));
  std::vector<std::vector<int>> begin(stages + 1, std::vector<int>(width, 0));
  slowest[0][0] = 0;
  for (std::size_t k = 1; k <= stages; ++k)
    for (std::size_t j = k; j < width; ++j) {
      const int last = static_cast<int>(j) - 1;
      StageUse use{.last = last};
      for (std::size_t i = j; i-- > k - 1;) {
        use.first = static_cast<int>(i);
        add(use, segments[i], options, static_cast<int>(k) - 1);
        if (slowest[k - 1][i] == kImpossible) continue;
        add_transfers(use, segments, options);
        if (options.memory > 0 && use.bytes > options.memory) continue;
        const double worst = std::max(slowest[k - 1][i], use.seconds);
        if (worst >= slowest[k][j]) continue;
        slowest[k][j] = worst;
        begin[k][j] = use.first;
      }
    }
  if (slowest[stages][width - 1] == kImpossible) refuse(segments, options);
  std::vector<StageUse> uses(stages);
  int end = count;
  for (std::size_t k = stages; k > 0; --k) {
    const int first = begin[k][static_cast<std::size_t>(end)];
    uses[k - 1] = stage_use(segments, options, static_cast<int>(k) - 1, first, end - 1);
    end = first;
  }
  return uses;
}

}  // namespace taxon::parallel
