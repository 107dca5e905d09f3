#include "job/outputs.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/version.h"
#include "launch/host.h"
#include "plan/mesh.h"
#include "report/progress.h"
#include "report/quantiles.h"
#include "report/summary.h"
#include "report/tensorboard.h"
#include "report/trace.h"
#include "train/report/trace.h"
#include "train/units.h"

namespace taxon::job {
namespace {

/// Now: windows are made narrower while a run goes on.
int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

report::ProgressOptions progress_options(const OutputsOptions& options, const plan::Plan& plan) {
  bool live = options.terminal == Outputs::Terminal::Live;
  return {.style = live ? report::ProgressOptions::Style::Live : report::ProgressOptions::Style::Plain,
          .colour = options.colour,
          .every_seconds = plan.report.every_seconds,
          .width = terminal_width};
}

std::string host_name() {
  char name[256] = "host";
  gethostname(name, sizeof name - 1);
  return name;
}

void to_terminal(const std::string& text) { std::cerr << text << std::flush; }

ConstView view(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Files of lines get them so far apart at least: where steps are short, code and pages of files that each
/// step pushes out of the caches would be fetched again for every line.
constexpr Duration kBetweenWrites = from_seconds(0.25);

}  // namespace

std::vector<report::Score> scores_of(const model::Scores& scores) {
  using Kind = report::ScoreKind;
  std::vector<report::Score> all;
  for (const model::Metric& metric : scores.metrics)
    all.push_back({{std::string(metric.name),
                    metric.unit == model::Metric::Unit::Share ? Kind::Unit::Share : Kind::Unit::Number,
                    metric.better == model::Metric::Better::More ? Kind::Better::More : Kind::Better::Less},
                   scores.value(metric)});
  return all;
}

std::vector<report::CodecUse> codec_uses(const train::Outcome& outcome) {
  std::vector<report::CodecUse> uses;
  for (const train::CodecReport& codec : outcome.codecs)
    uses.push_back({codec.level, codec.codec, codec.dense_bytes, codec.sent_bytes, codec.encode_seconds * 1e3,
                    codec.decode_seconds * 1e3});
  return uses;
}

std::vector<report::CrossingTensor> crossing_tensors(const train::Outcome& outcome) {
  std::vector<report::CrossingTensor> tensors;
  for (const model::GradientTransfer& crossing : outcome.crossings) {
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, crossing.steps));
    tensors.push_back(
        {crossing.name, crossing.shape == model::GradientTransfer::Shape::Static ? "static" : "dynamic",
         crossing.bytes, static_cast<double>(crossing.copies) / steps, crossing.last_copy, crossing.why});
  }
  return tensors;
}

class Outputs::Writer {
 public:
  Writer(data::Storage& storage, OutputsOptions options) : storage_(storage), options_(std::move(options)) {}
  ~Writer() {
    try {
      write_lines();
    } catch (const std::exception&) {
      // Whoever ends without finish() ends with an error of its own.
    }
  }

  void started(const train::RunInfo& info) {
    if (options_.run) options_.run->begin();
    info_ = info;
    clock_begin_ = launch::wall_clock() - to_seconds(info.now.time_since_epoch());
    last_end_ = info.now;
    written_at_ = info.now - kBetweenWrites;  // the first line tells that training goes on
    progress_ = std::make_unique<report::Progress>(progress_options(options_, info.plan), to_terminal);
    const auto& resolved = info.plan.resolved;
    write("plan.yaml", plan::write_plan(info.plan));
    drop_broken_line("metrics.jsonl");
    const int together = plan::ranks_of_replica(info.plan.mesh);
    const std::string who =
        together == 1 ? fmt::format("{} workers", resolved.world_size)
                      : fmt::format("{} replicas of {} ranks each", resolved.world_size / together, together);
    progress_->say(fmt::format("{}: {} parameters, {} over {}, {} training samples", info.plan.name,
                               info.parameters, who, resolved.transport, info.train_size));
    for (const std::string& line : report::bucket_lines(resolved, options_.detail)) progress_->say(line);
    if (info.start_step > 0) progress_->say(fmt::format("resumed after step {}", info.start_step));
    if (info.plan.report.tensorboard) {
      double now = launch::wall_clock();
      events_ = "tensorboard/" + report::event_file_name(now, host_name());
      append(events_, report::encode_file_version(now));
    }
  }

  void stepped(const train::StepReport& report) {
    double seconds = to_seconds(report.step_time);
    step_seconds_.add(seconds);
    compute_seconds_ += to_seconds(report.compute);
    exposed_seconds_ += to_seconds(report.exposed);
    coded_ = coded_ || report.encode + report.decode > Duration(0);
    data_seconds_ += to_seconds(report.data_wait);
    auto batch = report.samples - (seen_samples_ > 0 ? seen_samples_ : info_.start_samples);
    seen_samples_ = report.samples;
    window_.add(report, static_cast<double>(batch));
    show(report);
    if (report.step % info_.plan.report.metrics_steps == 0 || report.samples >= info_.total_samples)
      measure(report);
    last_end_ = report.end;
    if (last_end_ - written_at_ >= kBetweenWrites) write_lines();
  }

  void evaluated(const train::Evaluation& evaluation) {
    const std::string split(plan::to_string(info_.plan.evaluation.split));
    std::string words;
    std::vector<report::Scalar> scalars;
    for (const report::Score& score : scores_of(evaluation.scores)) {
      words += fmt::format("{} {}, ", report::title_of(score.kind), report::text_of(score));
      scalars.push_back({score.kind.name + "/" + split, score.value});
    }
    scalars.push_back({"loss/" + split, evaluation.loss});
    progress_->say(fmt::format("{} after step {}: {}loss {}", split, evaluation.step, words,
                               report::decimal(evaluation.loss, 4)));
    write_lines();
    record({evaluation.step, step_seconds_.sum(), launch::wall_clock()}, scalars,
           {{"samples", static_cast<double>(evaluation.samples)}, {"bytes_sent", evaluation.bytes_sent}});
    write_lines();
  }

  void saved(const std::string& path) {
    write_lines();
    if (options_.run) options_.run->secured();
    say("saved " + path);
  }

  void say(const std::string& line) { progress_ ? progress_->say(line) : to_terminal(line + "\n"); }

  void finish(const train::Outcome& outcome, const report::CoreUse& cores, double seconds) {
    progress_->finish();
    write_lines();
    if (!outcome.traces.empty()) write_trace(outcome);
    report::Summary summary = summarise(outcome, seconds);
    summary.cores = cores;
    const std::string json = report::to_json(summary);
    write("summary.json", json);
    std::cout << (options_.result == OutputsOptions::Result::Json ? json
                                                                  : report::to_text(summary, options_.folder))
              << std::flush;
  }

 private:
  /// Steps of a line, by sums.
  struct Window {
    model::Scores sums;  // over the steps that were not skipped
    double samples = 0, seconds = 0;
    int steps = 0, updates = 0;  // all, and those that were not skipped
    train::StepReport last;
    double trained = 0;  // seconds until then

    void add(const train::StepReport& report, double batch) {
      samples += batch;
      seconds += to_seconds(report.step_time);
      ++steps;
      sums.metrics = report.scores.metrics;
      if (report.skipped) return;
      sums.means.loss += report.loss;
      for (std::size_t i = 0; i < model::kMostCounts; ++i)
        sums.means.counts[i] += report.scores.means.counts[i];
      ++updates;
    }
    model::Scores means() const {
      model::Scores scores = sums;
      scores.means.loss /= updates;
      for (double& count : scores.means.counts) count /= updates;
      return scores;
    }
  };
  struct When {
    std::int64_t step;
    double trained, wall_time;
  };

  void write(const std::string& name, const std::string& text) {
    storage_.write_atomic(options_.folder + "/" + name, view(text));
  }
  /// What a disk that was full left of the last line.
  void drop_broken_line(const std::string& name) {
    const std::string path = options_.folder + "/" + name;
    if (!storage_.exists(path)) return;
    const std::vector<std::byte> bytes = storage_.read(path);
    const auto end = std::find(bytes.rbegin(), bytes.rend(), std::byte{'\n'}).base();
    if (end != bytes.end())
      storage_.write_atomic(path, ConstView(bytes.data(), static_cast<std::size_t>(end - bytes.begin())));
  }
  void append(const std::string& name, const std::string& text) {
    storage_.append(options_.folder + "/" + name, view(text));
  }

  void show(const train::StepReport& report) {
    auto train_size = static_cast<double>(info_.train_size);
    report::ProgressState state;
    state.step = report.step;
    state.epoch = static_cast<double>(report.samples) / train_size;
    state.epochs = static_cast<double>(info_.total_samples) / train_size;
    state.samples = report.samples;
    state.total_samples = info_.total_samples;
    state.loss = report.loss;
    state.rate = report.rate;
    double total = step_seconds_.sum();
    state.samples_per_second =
        total > 0 ? static_cast<double>(report.samples - info_.start_samples) / total : 0;
    progress_->update(state, total);
  }

  /// A line of metrics.jsonl and one point per chart are due.
  void measure(const train::StepReport& report) {
    window_.last = report;
    window_.trained = step_seconds_.sum();
    unwritten_.push_back(std::exchange(window_, {}));
  }

  void write_lines() {
    for (const Window& window : std::exchange(unwritten_, {})) record(window);
    if (!lines_.empty()) append("metrics.jsonl", std::exchange(lines_, {}));
    if (!points_.empty()) append(events_, std::exchange(points_, {}));
    written_at_ = last_end_;
  }

  void record(const Window& window) {
    const train::StepReport& report = window.last;
    const model::Scores scores = window.means();
    std::vector<report::Scalar> scalars = {{"loss/train", scores.means.loss}};
    for (const report::Score& score : scores_of(scores))
      scalars.push_back({score.kind.name + "/train", score.value});
    scalars.insert(scalars.end(), {{"learning_rate", report.rate},
                                   {"throughput/samples_per_second",
                                    window.seconds > 0 ? window.samples / window.seconds : 0},
                                   {"time/step_ms", window.seconds / std::max(1, window.steps) * 1e3},
                                   {"time/compute_ms", to_seconds(report.compute) * 1e3},
                                   {"time/exposed_communication_ms", to_seconds(report.exposed) * 1e3}});
    if (info_.plan.optimiser.clip_norm > 0) scalars.push_back({"gradient_norm", report.gradient_norm});
    if (coded_) {
      scalars.push_back({"time/encode_ms", to_seconds(report.encode) * 1e3});
      scalars.push_back({"time/decode_ms", to_seconds(report.decode) * 1e3});
    }
    const double end = clock_begin_ + to_seconds(report.end.time_since_epoch());
    record({report.step, window.trained, end}, scalars, {{"samples", static_cast<double>(report.samples)}});
  }

  /// `more` says, beside `when`, where in the run the scalars were seen.
  void record(When when, const std::vector<report::Scalar>& scalars,
              const std::vector<std::pair<std::string, double>>& more) {
    std::vector<std::pair<std::string, double>> numbers = {{"step", static_cast<double>(when.step)}};
    numbers.insert(numbers.end(), more.begin(), more.end());
    numbers.emplace_back("seconds", when.trained);
    numbers.emplace_back("wall_time", when.wall_time);
    for (const auto& scalar : scalars) numbers.emplace_back(scalar.tag, scalar.value);
    lines_ += report::metrics_line(numbers);
    if (!events_.empty()) points_ += report::encode_scalars(when.wall_time, when.step, scalars);
  }

  void write_trace(const train::Outcome& outcome) {
    std::vector<std::vector<report::TraceSpan>> ranks;
    for (const auto& packed : outcome.traces) {
      ranks.emplace_back();
      for (auto& span : train::unpack_spans(packed))
        ranks.back().push_back(
            {span.track, span.name, span.unit, span.bytes, span.begin_us, span.duration_us});
    }
    std::vector<std::string> names;
    for (std::size_t b = 0; b < info_.plan.resolved.buckets.size(); ++b)
      names.push_back(train::name_unit(static_cast<std::int64_t>(b), info_.plan));
    write("trace.json", report::chrome_trace(ranks, names));
  }

  report::Summary summarise(const train::Outcome& outcome, double seconds) const {
    report::Summary summary;
    summary.name = info_.plan.name;
    summary.version = version_number();
    summary.interrupted = outcome.end == train::Outcome::End::Interrupted;
    summary.split = info_.plan.evaluation.split;
    summary.scores = scores_of(outcome.test.scores);
    summary.prompt = outcome.prompt;
    summary.written = outcome.written;
    summary.loss = outcome.test.loss;
    summary.train_loss = outcome.train_loss;
    summary.steps = outcome.steps;
    summary.epochs = outcome.epochs;
    summary.samples = outcome.samples;
    double training = step_seconds_.sum();
    if (training > 0)
      summary.samples_per_second = static_cast<double>(outcome.samples - info_.start_samples) / training;
    summary.step_ms_p50 = step_seconds_.at(0.5) * 1e3;
    summary.step_ms_p95 = step_seconds_.at(0.95) * 1e3;
    double steps = std::max<double>(1, static_cast<double>(step_seconds_.count()));
    summary.compute_ms = compute_seconds_ / steps * 1e3;
    summary.exposed_communication_ms = exposed_seconds_ / steps * 1e3;
    summary.data_wait_ms = data_seconds_ / steps * 1e3;
    summary.bytes_sent_per_step = outcome.bytes_sent_per_step;
    summary.world_size = info_.plan.resolved.world_size;
    summary.transport = info_.plan.resolved.transport;
    summary.parameters = info_.parameters;
    summary.parameter_hash = outcome.parameter_hash;
    summary.seed = info_.plan.seed;
    summary.wall_seconds = seconds;
    summary.peak_rss_bytes = launch::peak_rss_bytes();
    summary.weight_bytes = info_.arenas.weights;
    summary.gradient_bytes = info_.arenas.gradients;
    summary.optimiser_bytes = info_.arenas.optimiser;
    summary.gradient_copies_per_step = outcome.copies_per_step;
    summary.gradient_copy_bytes_per_step = outcome.copy_bytes_per_step;
    summary.crossings = crossing_tensors(outcome);
    summary.staleness = outcome.staleness;
    summary.dropped = outcome.dropped;
    summary.skipped_steps = outcome.skipped;
    for (Rank rank : outcome.lost) summary.lost.push_back(rank.value());
    summary.codecs = codec_uses(outcome);
    for (const auto& bucket : info_.plan.resolved.buckets)
      summary.buckets.push_back({bucket.bytes, bucket.collectives, bucket.reasons});
    return summary;
  }

  data::Storage& storage_;
  OutputsOptions options_;
  train::RunInfo info_;
  std::unique_ptr<report::Progress> progress_;
  std::string events_;
  report::Quantiles step_seconds_;
  double compute_seconds_ = 0, exposed_seconds_ = 0, data_seconds_ = 0;
  double clock_begin_ = 0;  // when this rank's clock was 0, in seconds since 1970
  Window window_;           // since the last line
  std::vector<Window> unwritten_;
  std::string lines_, points_;  // of metrics.jsonl and of the events' file, likewise
  Instant written_at_, last_end_;
  bool coded_ = false;  // codecs have been at work
  std::int64_t seen_samples_ = 0;
};

Outputs::Outputs(data::Storage& storage, OutputsOptions options) {
  if (options.role == Role::Writer) writer_ = std::make_unique<Writer>(storage, std::move(options));
}
Outputs::~Outputs() = default;

void Outputs::started(const train::RunInfo& info) {
  if (writer_) writer_->started(info);
}
void Outputs::stepped(const train::StepReport& report) {
  if (writer_) writer_->stepped(report);
}
void Outputs::evaluated(const train::Evaluation& evaluation) {
  if (writer_) writer_->evaluated(evaluation);
}
void Outputs::saved(const std::string& path) {
  if (writer_) writer_->saved(path);
}
void Outputs::noticed(const std::string& sentence) {
  if (writer_) writer_->say(sentence);
}
void Outputs::finish(const train::Outcome& outcome, const report::CoreUse& cores, double seconds) {
  if (writer_) writer_->finish(outcome, cores, seconds);
}

}  // namespace taxon::job
