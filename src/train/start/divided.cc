#include "train/start/divided.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "parallel/stages.h"
#include "program/check.h"
#include "program/timeline.h"

namespace taxon::train {
namespace {

Error refusal(const std::string& what) { return Error(ErrorKind::Usage, "pipeline.cut: " + what); }

std::string names_of(const model::ModelSpec& spec) {
  std::vector<std::string> names;
  for (const model::Segment& segment : spec.segments) names.push_back(segment.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// What each segment takes, in whatever unit all of them have; equally much where nothing is known.
std::vector<parallel::SegmentCost> costs_of(const model::ModelSpec& spec) {
  const auto all_have = [&](double model::Segment::*figure) {
    return std::any_of(spec.segments.begin(), spec.segments.end(),
                       [&](const model::Segment& segment) { return segment.*figure > 0; });
  };
  const bool seconds = all_have(&model::Segment::forward_seconds);
  const bool flops = all_have(&model::Segment::forward_flops);
  std::vector<parallel::SegmentCost> costs;
  for (const model::Segment& segment : spec.segments) {
    const double forward = seconds ? segment.forward_seconds : segment.forward_flops;
    const double backward = seconds ? segment.backward_seconds : segment.backward_flops;
    const double compute = seconds || flops ? forward + (backward > 0 ? backward : 2 * forward) : 1;
    costs.push_back({.name = segment.name, .compute = compute});
  }
  return costs;
}

/// Of each stage.
int updates_of(const program::Program& program, const program::ScheduleRow& row) {
  std::vector<int> updates(static_cast<std::size_t>(program.stages), 0);
  for (const auto& actions : program.ranks)
    for (const program::Action& action : actions)
      if (action.kind == program::ActionKind::Update) ++updates[static_cast<std::size_t>(action.stage)];
  const int most = *std::max_element(updates.begin(), updates.end());
  if (most > 1 && (static_cast<std::size_t>(program.stages) != program.ranks.size() ||
                   std::count(updates.begin(), updates.end(), most) != program.stages))
    throw Error(ErrorKind::Usage,
                fmt::format("pipeline.schedule: {} updates weights while micro-batches are under way, for "
                            "which each rank must hold one stage and all stages must have as many updates",
                            row.name));
  return most;
}

/// Stages that update by themselves would let a parameter that several of them read drift apart.
void require_own_parameters(const Divided& divided, const model::ModelSpec& spec) {
  for (const model::ParameterSpec& parameter : spec.parameters)
    if (divided.updates > 1 && !parameter.stages.empty())
      throw Error(
          ErrorKind::Usage,
          fmt::format("pipeline.schedule: stages {} of model {} share {}, and each would update it at "
                      "its own time; choose a schedule of one update a step",
                      fmt::join(parameter.stages, " and "), divided.whole.name, parameter.name));
}

/// All micro-batches pass a segment before the next one, forward and back ("breadth-first": Lamy-Poirier,
/// MLSys 2023, arXiv 2211.05953): each segment's parameters are needed twice, however many micro-batches
/// there are, and its gradients are complete at once.
program::Program segment_by_segment(int segments, int micros) {
  program::Program program{segments, micros, std::vector<int>(static_cast<std::size_t>(segments), 0), {{}}};
  const auto pass = [&](program::ActionKind kind, int segment) {
    for (int micro = 0; micro < micros; ++micro) program.ranks.front().push_back({kind, segment, micro});
  };
  for (int segment = 0; segment < segments; ++segment) pass(program::ActionKind::Forward, segment);
  for (int segment = segments; segment-- > 0;) {
    pass(program::ActionKind::Backward, segment);
    program.ranks.front().push_back({program::ActionKind::Exchange, segment, micros - 1});
    program.ranks.front().push_back({program::ActionKind::Update, segment, micros - 1, 1});
  }
  return program;
}

/// Which segments lie on which ranks, and what the schedule makes of their times.
std::string describe_pipeline(const Divided& divided, const plan::Plan& plan) {
  const auto costs = costs_of(divided.whole);
  std::vector<std::string> stages;
  std::vector<program::StageCost> times;
  double all = 0;
  for (const parallel::SegmentCost& cost : costs) all += cost.compute;
  for (std::size_t s = 0; s < divided.stages.size(); ++s) {
    const Range range = divided.stages[s];
    double compute = 0;
    for (std::size_t i = range.begin; i < range.end(); ++i) compute += costs[i].compute;
    // A forward pass is taken for a third of both.
    const double again = plan.pipeline.activations == plan::Activations::Recomputed ? compute / 3 : 0;
    times.push_back(
        {.forward = compute / 3, .backward_input = compute / 3 + again, .backward_weight = compute / 3});
    const auto& first = costs[range.begin].name;
    const auto& last = costs[range.end() - 1].name;
    stages.push_back(fmt::format("{} {} ({:.0f} %)", divided.program.rank_at(static_cast<int>(s)),
                                 range.size == 1 ? first : first + " .. " + last, 100 * compute / all));
  }
  const program::Timeline timeline = program::evaluate(divided.program, times);
  return fmt::format("pipeline of {} by {}: {}; {} micro-batches, of the ranks' time {:.0f} % idle at least",
                     plan.mesh.pipeline, plan.pipeline.schedule, fmt::join(stages, ", "),
                     divided.program.micros, 100 * timeline.bubble());
}

/// What the rank that keeps most of micro-batches on their way keeps of them, and versions of its weights.
std::string describe_memory(const Divided& divided, const plan::Plan& plan) {
  const bool again = plan.pipeline.activations == plan::Activations::Recomputed;
  const std::int64_t samples = divided.micro_batch();
  const std::vector<double> kept = kept_activations(divided, plan);
  const auto most = std::max_element(kept.begin(), kept.end());
  const int rank = static_cast<int>(most - kept.begin());
  const int held = program::rank_activations(divided.program)[static_cast<std::size_t>(rank)];
  std::string text =
      fmt::format("of micro-batches of {} samples rank {} of the pipeline keeps most: ", samples, rank);
  text += again ? fmt::format("the inputs of {}, and what segments put out of one", held)
                : fmt::format("what segments put out of {}", held);
  text += ", " + format_bytes(*most);
  if (divided.updates > 1)
    text += fmt::format("; {} updates a step, with {} versions of the first rank's weights", divided.updates,
                        divided.versions(0));
  return text;
}

}  // namespace

int Divided::versions(int rank) const {
  const std::vector<program::StageMemory> memory = program::stage_memory(program);
  int versions = 1;
  for (int stage = 0; stage < program.stages; ++stage)
    if (program.rank_at(stage) == rank)
      versions = std::max(versions, memory[static_cast<std::size_t>(stage)].versions);
  return versions;
}

std::vector<Range> cut_into_stages(const model::ModelSpec& spec, int stages,
                                   const std::vector<std::string>& cut) {
  const std::size_t segments = spec.segments.size();
  std::vector<Range> ranges;
  if (static_cast<std::size_t>(stages) > segments)
    throw Error(ErrorKind::Usage,
                fmt::format("mesh.pipeline: {} stages need as many segments, and model {} has {}: {}", stages,
                            spec.name, segments, names_of(spec)));
  if (cut.empty()) {
    const parallel::CutOptions options{.stages = stages};
    for (const parallel::StageUse& stage : parallel::cut_stages(costs_of(spec), options))
      ranges.push_back(
          {static_cast<std::size_t>(stage.first), static_cast<std::size_t>(stage.last - stage.first + 1)});
    return ranges;
  }
  if (cut.size() + 1 != static_cast<std::size_t>(stages))
    throw refusal(
        fmt::format("{} names make {} stages, and the schedule has {}", cut.size(), cut.size() + 1, stages));
  std::vector<std::size_t> begins = {0};
  for (const std::string& name : cut) {
    const auto found = std::find_if(spec.segments.begin(), spec.segments.end(),
                                    [&](const model::Segment& segment) { return segment.name == name; });
    if (found == spec.segments.end())
      throw refusal(fmt::format("model {} has no segment {}, but {}", spec.name, name, names_of(spec)));
    begins.push_back(static_cast<std::size_t>(found - spec.segments.begin()));
    if (begins.back() <= begins[begins.size() - 2])
      throw refusal(
          fmt::format("{} does not come after {}", name, spec.segments[begins[begins.size() - 2]].name));
  }
  begins.push_back(segments);
  for (std::size_t s = 0; s + 1 < begins.size(); ++s)
    ranges.push_back({begins[s], begins[s + 1] - begins[s]});
  return ranges;
}

model::Staged& staged_passes(model::Model& model) {
  if (model::Staged* staged = model.staged()) return *staged;
  throw Error(
      ErrorKind::Usage,
      fmt::format("mesh: model {} has no passes that could be taken piece by piece; pipeline and tensor "
                  "must be 1 for it, and parameters whole",
                  model.spec().name));
}

model::Division by_segments(const model::ModelSpec& whole) {
  model::Division division;
  for (std::size_t s = 0; s < whole.segments.size(); ++s) {
    division.stages.push_back({s, 1});
    division.held.push_back(static_cast<int>(s));
  }
  return division;
}

std::vector<double> kept_activations(const Divided& divided, const plan::Plan& plan) {
  const std::vector<program::StageMemory> memory = program::stage_memory(divided.program);
  const bool again = plan.pipeline.activations == plan::Activations::Recomputed;
  const double element =
      static_cast<double>(divided.micro_batch()) * static_cast<double>(size_of(plan.precision.compute));
  std::vector<double> kept(divided.program.ranks.size(), 0);
  for (int stage = 0; stage < divided.program.stages; ++stage) {
    const Range range = divided.stages[static_cast<std::size_t>(stage)];
    const auto outputs = [&](std::size_t segment) {
      return element * static_cast<double>(divided.whole.segments[segment].outputs);
    };
    double all = 0;
    for (std::size_t i = range.begin; i < range.end(); ++i) all += outputs(i);
    const double input = range.begin > 0 ? outputs(range.begin - 1) : 0;
    const int held = memory[static_cast<std::size_t>(stage)].activations;
    kept[static_cast<std::size_t>(divided.program.rank_at(stage))] += again ? held * input + all : held * all;
  }
  return kept;
}

std::vector<std::string> describe(const Divided& divided, const plan::Plan& plan) {
  std::vector<std::string> notices;
  if (plan.mesh.pipeline > 1) {
    notices.push_back(describe_pipeline(divided, plan));
    notices.push_back(describe_memory(divided, plan));
  }
  if (!divided.account.empty()) notices.push_back(divided.account);
  return notices;
}

Divided divide(model::Model& model, const TrainOptions& options, RankGroups ranks) {
  const plan::Plan& plan = options.plan;
  Divided divided;
  divided.whole = model.spec();
  const bool in_parts = exchange::gathered_ahead(plan.exchange.levels, options.own).has_value();
  if (in_parts && plan.mesh.pipeline == 1) {
    divided.stages = by_segments(divided.whole).stages;
    divided.program = segment_by_segment(static_cast<int>(divided.stages.size()), plan.batch.micro_batches);
  } else {
    const program::ScheduleRow& row = program::find_schedule(plan.pipeline.schedule, options.own.pipelines);
    const int stages = program::stages_on(row, plan.mesh.pipeline, plan.pipeline.options);
    divided.program = program::make_program(row, {stages, plan.batch.micro_batches}, plan.pipeline.options);
    divided.updates = updates_of(divided.program, row);
    divided.stages = cut_into_stages(divided.whole, stages, plan.pipeline.cut);
  }
  model::Division division{.stages = divided.stages,
                           .held = {},
                           .members = plan.mesh.tensor,
                           .member = ranks.position.tensor,
                           .splits = {},
                           .own_splits = options.own.splits,
                           .own_kinds = options.own.layer_kinds};
  division.replicas = ranks.data.size();
  division.in_strips = ranks.levels.are_whole();
  division.activations = plan.pipeline.activations;
  division.segments_apart = in_parts;
  division.samples =
      std::max<std::int64_t>(1, plan::global_batch(plan, ranks.group.size()) / division.replicas);
  divided.samples = division.samples;
  for (const std::string& split : plan.mesh.splits)
    if (split == plan::kChosenSplits)
      division.choose = true;
    else
      division.splits[split.substr(0, split.find('='))] = split.substr(split.find('=') + 1);
  for (int stage = 0; stage < divided.program.stages; ++stage)
    if (divided.program.rank_at(stage) == ranks.position.pipeline) division.held.push_back(stage);
  model::Staged& staged = staged_passes(model);
  staged.divide(division);
  require_own_parameters(divided, model.spec());
  divided.account = staged.account();
  return divided;
}

task::Task<std::unique_ptr<Divided>> divide(TrainContext world, const TrainOptions* options,
                                            RankGroups ranks) {
  if (!ranks.replica) co_return nullptr;
  auto divided = std::make_unique<Divided>();
  tensor::Kernel kernel{
      "divide", {}, [&](tensor::Milestones&) { *divided = divide(world.model, *options, ranks); }};
  kernel.runs = tensor::Kernel::Body::Always;  // what travels from here on follows from it
  co_await tensor::run(world.runtime.device, world.runtime.pending(), tensor::Stream::Compute,
                       std::move(kernel));
  co_return divided;
}

}  // namespace taxon::train
