#include "planner/simulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/split.h"
#include "job/inputs.h"
#include "model/profile_model.h"
#include "planner/timed_model.h"
#include "train/train.h"

namespace taxon::planner {
namespace {

/// Samples that nobody looks at.
class BlankSamples final : public data::Dataset {
 public:
  /// `reading`: of a sample, in seconds; 0: as long as its bytes take.
  BlankSamples(std::int64_t size, data::SampleShape shape, double reading)
      : size_(size), shape_(std::move(shape)), reading_(reading) {}
  std::int64_t size() const override { return size_; }
  const data::SampleShape& shape() const override { return shape_; }
  void read_parts(std::optional<std::int64_t>, std::span<const std::int64_t>,
                  const data::Rooms& rooms) const override {
    const auto blank = [](auto room) { std::fill(room.begin(), room.end(), 0); };
    for (const data::Room& room : rooms.inputs) room.visit(blank);
    rooms.labels.visit(blank);
  }
  tensor::Cost cost(std::int64_t samples) const override {
    tensor::Cost cost = Dataset::cost(samples);
    cost.measured = from_seconds(reading_ * static_cast<double>(samples));
    return cost;
  }

 private:
  std::int64_t size_;
  data::SampleShape shape_;
  double reading_;
};

SimulatedInputs make_exact(const SimulationInput& input) {
  SimulatedInputs inputs;
  auto files = std::make_shared<const data::FileStorage>();
  inputs.datasets = data::open_split(input.plan, *files);
  inputs.files = std::move(files);
  const data::Dataset* train = inputs.datasets.train.get();
  inputs.make_model = [&plan = input.plan, &profile = input.profile, ranks = input.ranks, train](int rank) {
    model::ModelContext context;
    context.plan = &plan.model;
    context.task = &plan.task;
    context.shape = train->shape();
    context.compute = plan.precision.compute;
    context.seed = plan.seed;
    context.rank = rank;
    context.threads = job::compute_threads(plan, ranks);
    auto model = model::make_model(context);
    return profile ? with_times(std::move(model), *profile) : std::move(model);
  };
  inputs.costs = input.profile ? input.profile->source
                               : "operations of the model over the speed of the cluster's devices";
  return inputs;
}

/// Shape and costs of the recipe's own model, which is built once and dropped.
std::pair<model::ModelSpec, std::vector<int>> shape_of_recipe(const SimulationInput& input,
                                                              data::SampleShape* shape) {
  data::FileStorage storage;
  job::TrainingInputs training = job::open_training_inputs(input.plan, storage, 0, 1);
  *shape = training.datasets.train->shape();
  const std::vector<std::int64_t> first = {0, training.datasets.train->size() > 1 ? 1 : 0};
  const data::Samples samples = data::read_samples(*training.datasets.train, first);
  std::vector<int> order = training.model->gradient_order(samples.inputs(), samples.labels);
  return {training.model->spec(), std::move(order)};
}

SimulatedInputs make_timing(const SimulationInput& input) {
  SimulatedInputs inputs;
  model::ModelSpec spec;
  std::vector<int> order;
  data::SampleShape shape;
  double reading = 0;
  if (input.profile) {
    reading = input.profile->read / std::max(1.0, static_cast<double>(input.profile->batch));
    spec = model::spec_of(*input.profile);
    order = model::gradient_order_of(*input.profile, spec);
    shape = {input.profile->input, std::max(1, input.profile->classes)};
    inputs.costs = input.profile->source;
    if (!plan::is_measured(*input.profile)) inputs.costs += ", over the speed of the cluster's devices";
  } else {
    std::tie(spec, order) = shape_of_recipe(input, &shape);
    inputs.costs = "operations of the model over the speed of the cluster's devices (no --profile)";
  }
  // Large enough to hold the run in one epoch: a step at the end of one may be shorter.
  const std::int64_t steps = std::max<std::int64_t>(1, input.plan.length.steps);
  const std::int64_t size = plan::global_batch(input.plan, input.ranks) * (steps + 1);
  inputs.datasets.train = std::make_unique<BlankSamples>(size, shape, reading);
  inputs.datasets.test = std::make_unique<BlankSamples>(1, shape, reading);
  inputs.make_model = [spec, order](int) { return std::make_unique<model::ProfileModel>(spec, order); };
  return inputs;
}

constexpr FidelityRow kFidelities[] = {
    {"exact", sim::Fidelity::Exact, sim::Collectives::StepByStep, true, make_exact},
    {"timing", sim::Fidelity::Timing, sim::Collectives::StepByStep, false, make_timing},
    {"coarse", sim::Fidelity::Timing, sim::Collectives::Coarse, false, make_timing},
};

/// Follows one rank.
class Log final : public train::Observer {
 public:
  void started(const train::RunInfo& info) override { this->info = info; }
  void stepped(const train::StepReport& report) override {
    steps.push_back(report);
    if (on_step) on_step(report);
  }
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string& sentence) override { notices.push_back(sentence); }

  train::RunInfo info;
  std::vector<train::StepReport> steps;
  std::vector<std::string> notices;
  std::function<void(const train::StepReport&)> on_step;
};

/// The ranks of one simulation.
class SimulatedJob {
 public:
  SimulatedJob(const SimulationInput& input, SimulatedInputs& inputs, sim::World& world)
      : input_(input), inputs_(inputs), world_(world), logs_(static_cast<std::size_t>(input.ranks)) {}

  static task::Task<void> train_rank(SimulatedJob* job, comm::Runtime* doors) {
    const auto rank = static_cast<std::size_t>(doors->rank().value());
    auto model = job->inputs_.make_model(doors->rank().value());
    train::TrainContext world{*doors, *model, job->inputs_.datasets, job->world_.storage(), job->logs_[rank]};
    train::TrainOptions options;
    options.plan = job->input_.plan;
    options.own = job->input_.own;
    options.memory = {std::to_string(rank), job->memory_of(doors->rank())};
    auto training = train::train(world, std::move(options));
    train::Outcome outcome = co_await training;
    if (rank == 0) job->outcome_ = std::move(outcome);
  }

  /// Of the rank's own device.
  std::uint64_t memory_of(Rank rank) const {
    std::int64_t memory = 0;
    for (const plan::HostPlace& host : plan::expand_hosts(input_.cluster))
      if (host.first_rank <= rank.value()) memory = host.model->device.memory;
    return static_cast<std::uint64_t>(memory);
  }
  std::vector<Log>& logs() { return logs_; }
  train::Outcome& outcome() { return outcome_; }

 private:
  const SimulationInput& input_;
  SimulatedInputs& inputs_;
  sim::World& world_;
  std::vector<Log> logs_;
  train::Outcome outcome_;
};

/// What has passed the links between two looks at them.
std::vector<sim::LinkUse> difference(const std::vector<sim::LinkUse>& before,
                                     std::vector<sim::LinkUse> after) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    after[i].messages -= before[i].messages;
    after[i].bytes -= before[i].bytes;
    after[i].busy -= before[i].busy;
  }
  return after;
}

Duration median_time(const std::vector<train::StepReport>& steps, std::size_t warm_up) {
  std::vector<Duration> times;
  for (std::size_t i = warm_up; i < steps.size(); ++i) times.push_back(steps[i].step_time);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Not from the median: where replicas meet now and then few steps take the time of many, and without a
/// common step rank 0's are not everybody's.
double rate_of(const std::vector<train::StepReport>& steps, std::size_t warm_up) {
  if (warm_up == 0) return 0;
  const train::StepReport &from = steps[warm_up - 1], &to = steps.back();
  const double seconds = to_seconds(to.end - from.end);
  return seconds > 0 ? static_cast<double>(to.samples - from.samples) / seconds : 0;
}

/// Of the counted steps that the timeline still holds, the one whose time is nearest to the median; the
/// number of steps if there is none.
std::size_t typical_step(const SimulationResult& result) {
  std::size_t best = result.steps.size();
  Duration least = Duration::max();
  for (std::size_t i = result.warm_up; i < result.steps.size(); ++i) {
    const train::StepReport& step = result.steps[i];
    const Duration off = std::chrono::abs(step.step_time - result.median);
    if (step.end - step.step_time < result.timeline->complete_from() || off >= least) continue;
    best = i;
    least = off;
  }
  return best;
}

/// The first steps fill pipelines and open channels.
std::size_t warm_up_of(std::size_t steps) { return std::min<std::size_t>(2, steps > 0 ? steps - 1 : 0); }

}  // namespace

std::span<const FidelityRow> fidelity_table() { return kFidelities; }

SimulationResult simulate(const SimulationInput& input) {
  SimulationResult result;
  SimulatedInputs inputs = input.fidelity->make_inputs(input);
  auto timeline = std::make_shared<sim::ResourceTimeline>();
  sim::WorldOptions options;
  options.fidelity = input.fidelity->world;
  options.collectives = input.fidelity->collectives;
  options.seed = input.plan.seed;
  options.timeline = timeline.get();
  if (input.keep_spans) options.recorder = comm::FlightRecorder::Keep::Everything;
  sim::World world(input.cluster, input.ranks, options);
  SimulatedJob job(input, inputs, world);

  // A step's report comes in the middle of the next step, so the links are looked at from middle to middle;
  // the last step's comes at the end.
  std::vector<sim::LinkUse> first;
  train::StepReport looked;
  const std::int64_t total = input.plan.length.steps;
  // Until each step's messages are as far as the one's before, it takes a step more than times take.
  const std::int64_t from = std::clamp<std::int64_t>(total - 2, 1, 3);
  job.logs()[0].on_step = [&](const train::StepReport& report) {
    if (report.step < from || report.step >= total) return;
    if (report.step == from) {
      first = world.links();
      looked = report;
      return;
    }
    result.links = difference(first, world.links());
    result.counted = static_cast<std::size_t>(report.step - from);
    result.counted_time = report.end - looked.end;
  };
  const sim::RankBody body = [&job](comm::Runtime& doors) { return SimulatedJob::train_rank(&job, &doors); };
  result.report = world.run(body);
  if (result.report.failure) std::rethrow_exception(result.report.failure);

  for (int rank = 0; rank < input.ranks && input.keep_spans; ++rank)
    result.spans.push_back(world.runtime(Rank(rank)).recorder.all());
  for (Log& log : job.logs()) result.by_rank.push_back(log.steps);
  result.info = job.logs()[0].info;
  for (const Log& log : job.logs())  // ranks may hold parts of a model, some of which are larger
    if (log.info.arenas.total() > result.info.arenas.total()) result.info.arenas = log.info.arenas;
  result.notices = job.logs()[0].notices;
  result.outcome = std::move(job.outcome());
  result.costs = inputs.costs;
  result.steps = result.by_rank.front();
  result.timeline = timeline;
  if (result.steps.empty()) return result;
  result.warm_up = warm_up_of(result.steps.size());
  result.median = median_time(result.steps, result.warm_up);
  result.samples_per_second = rate_of(result.steps, result.warm_up);
  result.followed = typical_step(result);
  if (result.followed == result.steps.size()) return result;
  const train::StepReport& step = result.steps[result.followed];
  result.path = sim::critical_path(*timeline, 0, step.end - step.step_time, step.end);
  return result;
}

}  // namespace taxon::planner
