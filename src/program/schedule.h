#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/catalogue.h"
#include "plan/options.h"
#include "program/program.h"

namespace taxon::program {

/// What is scheduled.
struct Shape {
  int stages = 1;
  int micros = 1;  // micro-batches from one flush to the next
};

/// Stages times micro-batches of one program, at most: it is a list of all of them.
inline constexpr std::int64_t kMostPasses = 100'000;

/// Rows without keys of their own.
struct NoOptions {};
template <plan::Like<NoOptions> O, class V>
void visit_fields(O&, V&&) {}

/// A schedule of a pipeline, described: whatever else needs to know of it asks its row. Its functions are
/// pure.
struct ScheduleRow {
  std::string_view name;
  std::string_view sentence;
  std::string_view source;
  // Its words on the survey's axes.
  std::string_view parallelism = "pipeline";
  std::string_view scheduling = "synchronous";
  // For people, with p ranks, m micro-batches, and v = stages of a rank; a rank's number is r.
  std::string_view bubble;       // time without work, as a share of the whole
  std::string_view activations;  // micro-batches of which a rank keeps activations
  std::string_view versions = "1";
  bool flushes = true;           // one update of all micro-batches: what one process would compute
  bool splits_backward = false;  // gradients of inputs and of weights are separate passes
  // Filled in by schedule_row().
  std::vector<plan::OptionKey> (*options)() = nullptr;
  /// Ranks that hold the stages: stage s lies on rank s modulo that.
  int (*ranks)(const Shape&, const plan::Options&) = nullptr;
  /// What the shape or the options lack for it, one sentence each.
  std::vector<std::string> (*problems)(const Shape&, const plan::Options&) = nullptr;
  /// The rank's passes, exchanges and updates; transfers follow from them. Defined for shapes with problems
  /// too, as long as ranks() divides the stages.
  std::vector<Action> (*actions)(const Shape&, int rank, const plan::Options&) = nullptr;
};

/// A row whose keys are those of the struct S::Options. S has `actions(shape, rank, options)`, and where
/// every rank has one stage and nothing more is needed nothing else; otherwise `ranks(shape, options)` and
/// `require(shape, options, problems)`.
template <class S>
ScheduleRow schedule_row(ScheduleRow row) {
  using O = typename S::Options;
  row.options = plan::option_keys<O>;
  row.ranks = [](const Shape& shape, const plan::Options& options) {
    if constexpr (requires { S::ranks(shape, O{}); })
      return S::ranks(shape, options.read<O>());
    else
      return shape.stages;
  };
  row.problems = [](const Shape& shape, const plan::Options& options) {
    std::vector<std::string> problems;
    if constexpr (requires { S::require(shape, O{}, problems); })
      S::require(shape, options.read<O>(), problems);
    return problems;
  };
  row.actions = [](const Shape& shape, int rank, const plan::Options& options) {
    return S::actions(shape, rank, options.read<O>());
  };
  return row;
}

/// program/table.cc.
std::span<const ScheduleRow> schedule_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const ScheduleRow& find_schedule(std::string_view name, std::span<const ScheduleRow> own = {});

/// For plan::check_plan(), one's own first.
std::vector<plan::Catalogue::Pipeline> known_pipelines(std::span<const ScheduleRow> own = {});
/// The fewest stages that the row lays on so many ranks; 0: none that it could.
int stages_on(const ScheduleRow& row, int ranks, const plan::Options& options);

/// Everything that is wrong with these options and this shape, one sentence each. Empty: make_program() has
/// it.
std::vector<std::string> shape_problems(const ScheduleRow& row, const Shape& shape,
                                        const plan::Options& options = {});
/// Throws Error{Usage} that lists shape_problems().
Program make_program(const ScheduleRow& row, const Shape& shape, const plan::Options& options = {});

}  // namespace taxon::program
