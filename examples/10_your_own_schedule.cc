// A schedule of pipelines that Taxon does not know: found before its own, checked, drawn, and its bubble and
// memory beside those of Taxon's schedules of as many stages and micro-batches. Of another one, whose ranks
// wait for each other, the checker says so. 08_your_own_rules trains with the first.
#include <taxon/program.h>

#include <cmath>
#include <cstdio>
#include <iostream>

#include "crossed.h"
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
  const std::vector<std::string> waiting =
      program::program_problems(program::make_program(crossed(), {.stages = 2, .micros = 2}));
  for (const std::string& problem : waiting) std::cout << "crossed: " << problem << "\n";
  if (waiting.empty()) return 1;
  std::cout << "both have the bubble that their papers say\n";
}
