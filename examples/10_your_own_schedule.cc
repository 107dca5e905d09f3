// A schedule of pipelines that Taxon does not know: found before its own, checked, drawn, and its bubble and
// memory beside those of Taxon's schedules of as many stages and micro-batches.
#include <taxon/program.h>

#include <cmath>
#include <cstdio>
#include <iostream>

#include "looped_bfs.h"

using namespace taxon;

int main() {
  const program::ScheduleRow kOwn[] = {looped_bfs()};
  const program::Shape shape{.stages = 8, .micros = 8};
  for (const char* name : {"looped_bfs", "interleaved"}) {
    const program::ScheduleRow& row = program::find_schedule(name, kOwn);
    const program::Program made = program::make_program(row, shape, {{"chunks", 2}});
    for (const std::string& problem : program::program_problems(made)) {
      std::cerr << problem << "\n";
      return 1;
    }
    const std::vector<program::StageCost> units(8);
    const program::Timeline timeline = program::evaluate(made, units);
    std::cout << name << "\n" << program::draw(made, timeline);
    std::printf("bubble %.4f, room for %d, activations of rank 0: %d\n\n", timeline.bubble(),
                program::least_room(made).value(), program::rank_activations(made)[0]);
    if (std::abs(timeline.bubble() - 3.0 / 19) > 1e-12) return 1;  // (p-1)/(m v+p-1)
  }
  std::cout << "both have the bubble that their papers say\n";
}
