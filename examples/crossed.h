// A schedule that can't be carried out: the first stage wants a gradient before it hands over the second
// micro-batch, and the last stage wants that one first. Whoever reads a recipe that names it is told.
#pragma once

#include <taxon/program.h>

#include <string>
#include <vector>

struct Crossed {
  using Options = taxon::program::NoOptions;
  static std::vector<taxon::program::Action> actions(const taxon::program::Shape& shape, int rank,
                                                     const Options&) {
    using taxon::program::ActionKind;
    std::vector<taxon::program::Action> passes;
    for (int micro = 0; micro < shape.micros; ++micro) {
      passes.push_back({ActionKind::Forward, rank, micro});
      if (rank == 0) passes.push_back({ActionKind::Backward, rank, micro});
    }
    for (int micro = 0; micro < shape.micros && rank > 0; ++micro)
      passes.push_back({ActionKind::Backward, rank, micro});
    return taxon::program::with_flush(passes);
  }
};

inline taxon::program::ScheduleRow crossed() {
  return taxon::program::schedule_row<Crossed>({.name = "crossed",
                                                .sentence = "each end waits for the other",
                                                .source = "a mistake, planted",
                                                .bubble = "all of it",
                                                .activations = "m"});
}
