#include <fmt/format.h>

#include "base/error.h"
#include "base/table_row.h"
#include "model/task.h"

namespace taxon::model {

std::span<const TaskRow> task_table() {
  static const TaskRow kRows[] = {TAXON_ROW(TaskRow, classification), TAXON_ROW(TaskRow, language_model),
                                  TAXON_ROW(TaskRow, regression)};
  return kRows;
}

Task make_task(const plan::TaskPlan& plan, const data::SampleShape& shape) {
  for (const TaskRow& row : task_table()) {
    const bool named = row.name == plan.name;
    if (plan.name != "auto" && !named) continue;
    if (row.fits(shape)) return row.make(plan.options, shape);
    if (named)
      throw Error(ErrorKind::Usage, fmt::format("task: {} does not fit samples that have {}; leave the task "
                                                "out, or choose another data set",
                                                row.name, data::describe(shape)));
  }
  throw Error(ErrorKind::Usage, fmt::format("task: none of \"{}\" fits samples that have {}", plan.name,
                                            data::describe(shape)));
}

std::vector<plan::Catalogue::Task> known_tasks() {
  std::vector<plan::Catalogue::Task> known;
  for (const TaskRow& row : task_table())
    known.push_back({.name = std::string(row.name),
                     .sentence = std::string(row.sentence),
                     .options = row.options ? row.options() : std::vector<plan::OptionKey>()});
  return known;
}

}  // namespace taxon::model
