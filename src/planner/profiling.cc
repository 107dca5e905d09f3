#include "planner/profiling.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "data/sampler.h"
#include "exchange/layout/bucket.h"
#include "launch/core_pressure.h"
#include "optim/rule.h"
#include "planner/dry_run.h"
#include "planner/piece_passes.h"
#include "task/poll_loop.h"
#include "task/scope.h"
#include "tensor/cpu_device.h"

namespace taxon::planner {
namespace {

/// A gradient of more elements is watched in parts: layers may complete it row by row.
constexpr std::size_t kWatchedElements = 128 << 10;
constexpr std::size_t kMostParts = 8;

/// A thread's watch, for what computes with so many threads. One that computes alone counts its processor
/// time: what a quota or others on the machine take from it is nothing that its work needs. With more
/// threads, of which it sees its own time only, it is the time that passes.
class Watch {
 public:
  explicit Watch(int threads) : clock_(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) {}
  /// In seconds.
  double now() const {
    timespec time{};
    clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  template <typename Work>
  double seconds_of(const Work& work) const {
    const double begin = now();
    work();
    return now() - begin;
  }

 private:
  clockid_t clock_;
};

/// When each mark was reached.
class Clock final : public tensor::Milestones {
 public:
  Clock(Watch watch, std::size_t marks) : watch_(watch), reached_(marks, 0) {}
  void reached(int index) override { reached_[static_cast<std::size_t>(index)] = watch_.now(); }
  double at(std::size_t mark) const { return reached_[mark]; }

 private:
  Watch watch_;
  std::vector<double> reached_;
};

/// The model's memory, in the order in which gradients complete, cut finely.
class Bench {
 public:
  Bench(model::Model& model, const plan::Plan& plan, const std::vector<int>& order)
      : model_(model), layout_(plan.precision.master) {
    binding_.parameters = order;
    for (int parameter : order) {
      const model::ParameterSpec& spec = model.spec().parameters[static_cast<std::size_t>(parameter)];
      watch(layout_.add(spec.name, spec.shape));
    }
    // Both arenas have one layout; that of the wider type serves both.
    weights_ = tensor::Arena(plan.precision.compute, layout_.size());
    gradients_ = tensor::Arena(plan.precision.master, layout_.size());
    binding_.layout = &layout_;
    binding_.weights = &weights_;
    binding_.gradients = {&gradients_};
    model.bind(binding_);
  }
  Bench(const Bench&) = delete;
  ~Bench() { model_.unbind(); }

  const tensor::ArenaLayout& layout() const { return layout_; }
  tensor::Arena& weights() { return weights_; }
  const tensor::Arena& gradients() const { return gradients_; }
  std::size_t marks() const { return binding_.buckets.size(); }
  /// Marks [first, last) of a slot.
  std::pair<std::size_t, std::size_t> marks_of(std::size_t slot) const {
    return {first_mark_[slot], slot + 1 < first_mark_.size() ? first_mark_[slot + 1] : marks()};
  }

 private:
  void watch(Range slot) {
    first_mark_.push_back(marks());
    const std::size_t parts = std::clamp<std::size_t>(slot.size / kWatchedElements, 1, kMostParts);
    for (std::size_t i = 0; i < parts; ++i) {
      const Range range = part(slot, parts, i);
      binding_.buckets.push_back({range, range});
    }
  }

  model::Model& model_;
  tensor::ArenaLayout layout_;
  model::Binding binding_;
  tensor::Arena weights_, gradients_;
  std::vector<std::size_t> first_mark_;  // [slot]
};

/// The plan's optimiser at rate 0: memory is read and written, values stay.
class Update {
 public:
  Update(const plan::Plan& plan, Bench& bench) : gradients_(bench.gradients()), weights_(&bench.weights()) {
    const tensor::ArenaLayout& layout = bench.layout();
    range_ = {0, layout.size()};
    if (weights_->type() != layout.type()) {
      master_ = tensor::Arena(layout.type(), layout.size());
      weights_ = &master_;
    }
    std::vector<Range> tensors;
    for (const tensor::Slot& slot : layout.slots()) tensors.push_back(slot.range);
    rule_ = optim::find_rule(plan.optimiser.rule)
                .make(plan.optimiser, {layout.type(), layout.size(), {}, {}, std::move(tensors)});
  }

  void run() {
    optim::StepClock clock;
    clock.step = step_++;
    rule_->update(*weights_, gradients_, optim::UpdateRange::same(range_), clock);
  }

 private:
  const tensor::Arena& gradients_;
  tensor::Arena* weights_;
  tensor::Arena master_;  // if the model computes in another type
  std::unique_ptr<optim::Rule> rule_;
  Range range_;
  std::int64_t step_ = 0;
};

/// Measurements of one figure for each of a list of things.
class Series {
 public:
  explicit Series(std::size_t size) : values_(size) {}
  void add(std::size_t index, double value) { values_[index].push_back(value); }
  double at(std::size_t index) const { return measured(values_[index]).median; }
  Measured all(std::size_t index) const { return measured(values_[index]); }

 private:
  std::vector<std::vector<double>> values_;
};

class Profiling {
 public:
  Profiling(model::Model& model, const data::Dataset& train, const plan::Plan& plan,
            const ProfilingOptions& options)
      : model_(model),
        spec_(model.spec()),
        train_(train),
        plan_(plan),
        options_(options),
        samples_(plan::pass_samples(plan, options.workers)),
        watch_(options.threads),
        shape_(train.shape()),
        sampler_(plan.seed, train.size(), samples_) {
    if (train.size() < samples_)
      throw Error(ErrorKind::Usage, "a pass has more samples than the training set: give a smaller batch");
    Figures first(0, 0);
    batch_ = read_next(&first);
  }

  MeasuredProfile run() {
    launch::CorePressure pressure;
    loop_.run(measure(this));
    return {std::move(profile_), backward_, pressure.take_share_of_others()};
  }

 private:
  using Body = UniqueFunction<void(tensor::Milestones&)>;

  /// What is measured of every step, in seconds.
  struct Figures {
    Figures(std::size_t segments, std::size_t slots)
        : forward(segments), first(slots), last(slots), parts(segments) {}
    Series forward;      // of each segment
    Series first, last;  // of each slot: when its first and its last element were complete
    Series backward{1}, update{1}, read{1};
    Series parts;  // of each segment's backward pass, where layers are split
  };

  /// Steps as training has them, on the threads on which it has them, so that caches hold what they hold
  /// there: a batch that another thread has read, weights that an update on the executor's thread has just
  /// written.
  static task::Task<void> measure(Profiling* self) {
    auto ordering = self->kernel(tensor::Stream::Compute, [self](tensor::Milestones&) {
      self->order_ = self->model_.gradient_order(self->batch_.inputs(), self->batch_.labels);
    });
    co_await ordering;
    Bench bench(self->model_, self->plan_, self->order_);
    Update rule(self->plan_, bench);
    if (self->is_part()) self->pieces_.emplace(self->model_, self->samples_, self->plan_.precision.compute);
    Figures figures(self->spec_.segments.size(), self->order_.size());
    for (int step = -self->options_.warm_up; step < self->options_.steps; ++step) {
      co_await self->step(step, &bench, &rule, &figures);
    }
    self->pieces_.reset();
    self->describe();
    self->fill(figures);
  }

  /// Steps below 0 don't count.
  task::Task<void> step(int step, Bench* bench, Update* rule, Figures* figures) {
    Figures ignored(spec_.segments.size(), order_.size());
    Figures* of = step < 0 ? &ignored : figures;
    data::Samples next;
    task::Scope beside(pending_);
    beside.spawn(kernel(tensor::Stream::Data, [&](tensor::Milestones&) { next = read_next(of); }));
    beside.spawn(pass_and_update(bench, rule, of));
    co_await beside.join();
    batch_ = std::move(next);
  }

  task::Task<void> pass_and_update(Bench* bench, Update* rule, Figures* figures) {
    auto passed = kernel(tensor::Stream::Compute, [=, this](tensor::Milestones&) { pass(*bench, *figures); });
    co_await passed;
    auto updated = kernel(tensor::Stream::Exchange, [=, this](tensor::Milestones&) {
      figures->update.add(0, watch_.seconds_of([rule] { rule->run(); }));
    });
    co_await updated;
  }

  task::Task<void> kernel(tensor::Stream stream, Body body) {
    return tensor::run(device_, pending_, stream, {"profile", {}, std::move(body)});
  }

  void pass(Bench& bench, Figures& figures) {
    const model::StepInput input{.inputs = batch_.inputs(),
                                 .labels = batch_.labels,
                                 .global_size = samples_,
                                 .targets = shape_.targets()};
    if (is_part())
      pass_pieces(input, bench, figures);
    else
      pass_segments(input, bench, figures);
  }

  void pass_pieces(const model::StepInput& input, const Bench& bench, Figures& figures) {
    Clock clock(watch_, bench.marks());
    const PiecePasses::Times times = pieces_->pass(
        input, [this] { return watch_.now(); }, clock);
    for (std::size_t s = 0; s < spec_.segments.size(); ++s) {
      figures.forward.add(s, times.forward[s]);
      figures.parts.add(s, times.backward[s]);
    }
    figures.backward.add(0, std::accumulate(times.backward.begin(), times.backward.end(), 0.0));
  }

  void pass_segments(const model::StepInput& input, const Bench& bench, Figures& figures) {
    const std::size_t segments = spec_.segments.size();
    for (std::size_t s = 0; s < segments; ++s)
      figures.forward.add(s, watch_.seconds_of([&] { model_.forward(input, static_cast<int>(s) + 1); }));
    Clock clock(watch_, bench.marks());
    const double begin = watch_.now();
    model_.forward_backward(input, 0, clock);
    figures.backward.add(0, watch_.now() - begin);
    for (std::size_t slot = 0; slot < order_.size(); ++slot) {
      auto [from, to] = bench.marks_of(slot);
      figures.first.add(slot, complete_from(clock, from, to) - begin);
      figures.last.add(slot, clock.at(to - 1) - begin);
    }
  }

  /// As the loader does: into memory of its own, and what no cache holds. Never what an epoch's end cuts
  /// short.
  data::Samples read_next(Figures* figures) {
    data::Samples batch;
    const double seconds = watch_.seconds_of([&] {
      const std::int64_t whole = train_.size() / samples_;
      const auto indices = sampler_.at(batches_++ % whole * samples_, 1, 0).indices;
      batch = data::read_samples(train_, indices);
    });
    figures->read.add(0, seconds);
    return batch;
  }

  /// When the first element was complete, from when the parts were: each took as long as the ones after the
  /// first.
  static double complete_from(const Clock& clock, std::size_t from, std::size_t to) {
    const double first = clock.at(from), last = clock.at(to - 1);
    if (to - from < 2) return first;
    return first - (last - first) / static_cast<double>(to - from - 1);
  }

  void describe() {
    profile_.model = spec_.name;
    profile_.batch = samples_;
    profile_.tensor = spec_.members;
    profile_.compute = plan_.precision.compute;
    profile_.divisible = spec_.divisible;
    profile_.input = shape_.input;
    profile_.classes = shape_.classes;
    for (const model::BufferSpec& buffer : spec_.buffers)
      profile_.buffers.push_back(static_cast<std::int64_t>(buffer.count()));
    for (int parameter : order_)
      profile_.completion.push_back(spec_.parameters[static_cast<std::size_t>(parameter)].name);
    for (const model::Segment& segment : spec_.segments) {
      profile_.segments.push_back({.name = segment.name, .outputs = segment.outputs});
      for (int parameter : segment.parameters) {
        const model::ParameterSpec& spec = spec_.parameters[static_cast<std::size_t>(parameter)];
        profile_.segments.back().parameters.push_back(
            {spec.name, spec.shape, spec.trainable, 0, 0, spec.linear});
      }
    }
  }

  void fill(const Figures& figures) {
    profile_.update = figures.update.at(0);
    profile_.read = figures.read.at(0);
    backward_ = figures.backward.all(0);
    for (std::size_t s = 0; s < spec_.segments.size(); ++s)
      profile_.segments[s].forward = std::max(0.0, figures.forward.at(s));
    if (is_part())
      for (std::size_t s = 0; s < spec_.segments.size(); ++s)
        profile_.segments[s].backward = figures.parts.at(s);
    else
      fill_gradients(figures);
  }

  /// Medians don't add up to the median of the whole, so times of gradients are kept within it.
  void fill_gradients(const Figures& figures) {
    const double backward = backward_.median;
    std::map<std::string, std::pair<double, double>> times;
    for (std::size_t slot = 0; slot < order_.size(); ++slot) {
      const double end = std::clamp(figures.last.at(slot), 0.0, backward);
      times[spec_.parameters[static_cast<std::size_t>(order_[slot])].name] = {
          std::clamp(figures.first.at(slot), 0.0, end), end};
    }
    double done = 0;  // of the backward pass, by the segments behind
    for (std::size_t s = spec_.segments.size(); s-- > 0;) {
      plan::SegmentProfile& segment = profile_.segments[s];
      double end = done;
      for (plan::ParameterProfile& parameter : segment.parameters) {
        if (!parameter.trainable) continue;
        std::tie(parameter.gradient_from, parameter.gradient) = times.at(parameter.name);
        end = std::max(end, parameter.gradient);
      }
      if (s == 0) end = backward;
      segment.backward = end - done;
      done = end;
    }
  }

  /// Whether the model is a member's part of one whose layers are split.
  bool is_part() const { return spec_.members > 1; }

  model::Model& model_;
  const model::ModelSpec& spec_;
  const data::Dataset& train_;
  const plan::Plan& plan_;
  const ProfilingOptions options_;
  const std::int64_t samples_;  // of a pass
  const Watch watch_;
  const data::SampleShape shape_;
  data::Sampler sampler_;
  task::PollLoop loop_;
  task::PendingOps pending_;
  tensor::CpuDevice device_{loop_};
  std::optional<PiecePasses> pieces_;  // of a part
  std::int64_t batches_ = 0;           // read so far
  data::Samples batch_;                // of the step
  std::vector<int> order_;
  plan::ModelProfile profile_;
  Measured backward_;
};

/// As one process that has the parts of all stages.
void divide(const job::TrainingInputs& training, plan::Plan plan, int workers) {
  const int stages = plan.mesh.pipeline;
  plan.mesh.pipeline = 1;
  plan.pipeline = {};
  require_divisible(plan, training, workers / stages);
}

}  // namespace

MeasuredProfile measure_profile(const job::TrainingInputs& training, const plan::Plan& plan,
                                const ProfilingOptions& options) {
  if (plan.mesh.tensor > 1) divide(training, plan, options.workers);
  return Profiling(*training.model, *training.datasets.train, plan, options).run();
}

}  // namespace taxon::planner
