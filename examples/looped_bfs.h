// A schedule of one's own: several stages a rank, all micro-batches through one stage before the next
// (breadth first). Lamy-Poirier, "Breadth-first pipeline parallelism", MLSys 2023.
#pragma once

#include <taxon/program.h>

#include <string>
#include <vector>

struct LoopedBfsOptions {
  int chunks = 2;
};
template <taxon::plan::Like<LoopedBfsOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(taxon::plan::Field{.key = "chunks", .sentence = "Stages of a rank.", .min = 1, .max = 64}, o.chunks);
}

struct LoopedBfs {
  using Options = LoopedBfsOptions;
  static int ranks(const taxon::program::Shape& shape, const Options& options) {
    return shape.stages / options.chunks;
  }
  static void require(const taxon::program::Shape& shape, const Options& options,
                      std::vector<std::string>& problems) {
    if (shape.stages % options.chunks != 0) problems.emplace_back("stages must be a multiple of chunks");
    if (shape.micros < shape.stages / options.chunks)
      problems.emplace_back("schedule looped_bfs needs at least as many micro-batches as ranks");
  }
  static std::vector<taxon::program::Action> actions(const taxon::program::Shape& shape, int rank,
                                                     const Options& options) {
    using taxon::program::ActionKind;
    const int p = ranks(shape, options);
    std::vector<taxon::program::Action> passes;
    for (int stage = rank; stage < shape.stages; stage += p)
      for (int micro = 0; micro < shape.micros; ++micro)
        passes.push_back({ActionKind::Forward, stage, micro});
    for (int stage = shape.stages - p + rank; stage >= 0; stage -= p)
      for (int micro = 0; micro < shape.micros; ++micro)
        passes.push_back({ActionKind::Backward, stage, micro});
    return taxon::program::with_flush(passes);
  }
};

inline taxon::program::ScheduleRow looped_bfs() {
  return taxon::program::schedule_row<LoopedBfs>(
      {.name = "looped_bfs",
       .sentence = "all micro-batches through one stage, then the next",
       .source = "Lamy-Poirier, MLSys 2023",
       .bubble = "(p-1)/(m v+p-1)",
       .activations = "m v"});
}
