#include "program/schedule.h"

#include <fmt/format.h>

#include "base/error.h"
#include "plan/nearest.h"
#include "program/check.h"

namespace taxon::program {

const ScheduleRow& find_schedule(std::string_view name, std::span<const ScheduleRow> own) {
  std::vector<std::string> names;
  for (std::span<const ScheduleRow> rows : {own, schedule_table()})
    for (const ScheduleRow& row : rows) {
      if (row.name == name) return row;
      names.emplace_back(row.name);
    }
  const auto meant = plan::nearest(name, names);
  throw Error(ErrorKind::Usage, fmt::format("there is no schedule \"{}\"{}", name,
                                            meant ? plan::suggestion(meant)
                                                  : fmt::format("; there are {}", fmt::join(names, ", "))));
}

/// What is wrong before the row can be asked.
static std::vector<std::string> option_problems(const ScheduleRow& row, const plan::Options& options) {
  std::vector<std::string> problems;
  const std::vector<plan::OptionKey> keys = row.options();
  std::vector<std::string> names;
  for (const plan::OptionKey& key : keys) names.push_back(key.key);
  for (const auto& [given, text] : options.given()) {
    const auto key = std::find(names.begin(), names.end(), given);
    if (key == names.end()) {
      problems.push_back(fmt::format("{} is no key of schedule {}{}", given, row.name,
                                     plan::suggestion(plan::nearest(given, names))));
      continue;
    }
    const plan::OptionKey& known = keys[static_cast<std::size_t>(key - names.begin())];
    if (!known.canonical(text))
      problems.push_back(fmt::format("{} must be {}, but is {}", given, known.allowed, text));
  }
  return problems;
}

std::vector<std::string> shape_problems(const ScheduleRow& row, const Shape& shape,
                                        const plan::Options& options) {
  std::vector<std::string> problems = option_problems(row, options);
  if (shape.stages < 1)
    problems.push_back(fmt::format("stages must be at least 1, but are {}", shape.stages));
  if (shape.micros < 1)
    problems.push_back(fmt::format("micro-batches must be at least 1, but are {}", shape.micros));
  if (const std::int64_t passes = std::int64_t{shape.stages} * shape.micros; passes > kMostPasses)
    problems.push_back(fmt::format("{} stages of {} micro-batches are more than the {} passes of a program",
                                   shape.stages, shape.micros, kMostPasses));
  if (!problems.empty()) return problems;
  problems = row.problems(shape, options);
  if (const int ranks = row.ranks(shape, options); ranks < 1 || shape.stages % ranks != 0)
    problems.push_back(fmt::format("schedule {}: {} stages cannot be shared equally by {} ranks", row.name,
                                   shape.stages, ranks));
  return problems;
}

int stages_on(const ScheduleRow& row, int ranks, const plan::Options& options) {
  constexpr int kMostOfARank = 1024;
  for (int each = 1; each <= kMostOfARank; ++each)
    if (row.ranks({.stages = each * ranks}, options) == ranks) return each * ranks;
  return 0;
}

std::vector<plan::Catalogue::Pipeline> known_pipelines(std::span<const ScheduleRow> own) {
  std::vector<plan::Catalogue::Pipeline> known;
  for (std::span<const ScheduleRow> rows : {own, schedule_table()})
    for (const ScheduleRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .sentence = std::string(row.sentence),
                       .flushes = row.flushes,
                       .scheduling = std::string(row.scheduling),
                       .options = row.options(),
                       .problems = [&row](int ranks, int micros, const plan::Options& options) {
                         if (auto problems = option_problems(row, options); !problems.empty())
                           return problems;
                         const int stages = stages_on(row, ranks, options);
                         if (stages == 0)
                           return std::vector{
                               fmt::format("schedule {} lies on no {} ranks", row.name, ranks)};
                         std::vector<std::string> problems = shape_problems(row, {stages, micros}, options);
                         if (problems.empty())
                           problems = program_problems(make_program(row, {stages, micros}, options));
                         return problems;
                       }});
  return known;
}

Program make_program(const ScheduleRow& row, const Shape& shape, const plan::Options& options) {
  if (const auto problems = shape_problems(row, shape, options); !problems.empty())
    throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n")));
  const int ranks = row.ranks(shape, options);
  Program program{.stages = shape.stages, .micros = shape.micros};
  for (int stage = 0; stage < shape.stages; ++stage) program.rank_of.push_back(stage % ranks);
  for (int rank = 0; rank < ranks; ++rank)
    program.ranks.push_back(with_transfers(row.actions(shape, rank, options), program.rank_of));
  return program;
}

}  // namespace taxon::program
