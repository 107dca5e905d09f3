#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "comm/runtime.h"
#include "data/memory_storage.h"
#include "exchange/levels/levels.h"
#include "support/delayed_ranks.h"
#include "tensor/cpu_device.h"
#include "train/state/state.h"
#include "train/train.h"

namespace taxon::test {

/// Keeps what a run said.
class Recorder final : public train::Observer {
 public:
  void started(const train::RunInfo& info) override { this->info = info; }
  void stepped(const train::StepReport& report) override {
    steps.push_back(report);
    if (on_step) on_step(report);
  }
  void evaluated(const train::Evaluation& evaluation) override { evaluations.push_back(evaluation); }
  void saved(const std::string& path) override { paths.push_back(path); }
  void noticed(const std::string& sentence) override { notices.push_back(sentence); }

  train::RunInfo info;
  std::vector<train::StepReport> steps;
  std::vector<train::Evaluation> evaluations;
  std::vector<std::string> paths, notices;
  std::function<void(const train::StepReport&)> on_step;
};

/// A job of `ranks` loopback ranks in this process. Models are made per rank; data and storage are shared.
struct TrainingJob {
  int ranks = 1;
  plan::Plan plan;
  std::function<std::unique_ptr<model::Model>(int rank)> make_model;
  const data::Datasets* datasets = nullptr;
  std::map<int, const data::Datasets*> own_datasets = {};  // of ranks that have others
  data::Storage* storage = nullptr;                        // null: no files
  std::string out;
  train::TrainOptions::Start start = train::TrainOptions::Start::Fresh;
  std::optional<std::int64_t> resume_step;
  std::vector<std::string> assignments;
  std::int64_t stop_after = 0;  // rank 0 asks to stop when it has seen this step's report; 0: never
  int stopped = -1;             // this rank asks from the beginning; -1: none
  bool share_memory = true;
  bool record_order = false;
  const train::ReplayLog* follow = nullptr;
  net::FaultyOptions faults;  // of loopback's messages
  exchange::Extensions own = {};
  std::vector<train::RankMemory> memory = {};  // [rank]; empty: not known
  /// Hears, in the rank's process, what it did.
  std::function<void(const exchange::AsyncEvents& events)> on_events;
};

struct TrainingResult {
  std::vector<train::Outcome> outcomes;  // [rank]
  std::vector<Recorder> recorders;
  std::vector<double> parameters;  // of rank 0
};

/// Of model.safetensors, without the model's buffers.
inline std::vector<checkpoint::LogicalTensor> parameters_in(const data::Storage& storage,
                                                            const std::string& folder,
                                                            const model::ModelSpec& spec) {
  std::vector<checkpoint::LogicalTensor> tensors =
      checkpoint::read_safetensors(storage, folder + "/model.safetensors");
  std::erase_if(tensors, [&](const checkpoint::LogicalTensor& tensor) {
    return std::any_of(spec.buffers.begin(), spec.buffers.end(),
                       [&](const model::BufferSpec& buffer) { return buffer.name == tensor.name; });
  });
  return tensors;
}

inline task::Task<void> train_over(const TrainingJob* job, comm::Runtime* runtime, TrainingResult* result) {
  auto rank = static_cast<std::size_t>(runtime->rank().value());
  auto model = job->make_model(runtime->rank().value());
  std::atomic<bool> stop{runtime->rank().value() == job->stopped};
  Recorder& recorder = result->recorders[rank];
  if (job->stop_after > 0 && rank == 0)
    recorder.on_step = [&](const train::StepReport& report) { stop = report.step >= job->stop_after; };
  data::FileStorage none;
  const auto own = job->own_datasets.find(runtime->rank().value());
  const data::Datasets& datasets = own == job->own_datasets.end() ? *job->datasets : *own->second;
  // Of a model of which no rank has all parameters they are read from its file.
  const bool in_parts = exchange::gathered_ahead(job->plan.exchange.levels, job->own).has_value();
  data::MemoryStorage written;
  const bool reads_own = in_parts && job->out.empty();
  data::Storage& storage = reads_own ? written : job->storage ? *job->storage : none;
  const model::ModelSpec whole = model->spec();
  train::TrainContext world{*runtime, *model, datasets, storage, recorder};
  train::TrainOptions options{job->plan, reads_own ? "own" : job->out, job->start, "test", Duration(0),
                              &stop};
  options.resume_step = job->resume_step;
  options.assignments = job->assignments;
  options.record_order = job->record_order;
  options.follow = job->follow;
  options.own = job->own;
  if (!job->memory.empty()) options.memory = job->memory[rank];
  exchange::AsyncEvents events;
  if (job->on_events) options.events = &events;
  auto training = train::train(world, options);
  result->outcomes[rank] = co_await training;
  if (job->on_events) job->on_events(events);
  const bool has_file = result->outcomes[rank].end == train::Outcome::End::Complete;
  if (rank == 0 && (!in_parts || has_file))
    result->parameters =
        in_parts ? train::parameters_from(parameters_in(storage, options.out, whole), whole, options.out)
                 : model->parameters();
  recorder.on_step = nullptr;
}

inline task::Task<void> train_rank(const TrainingJob* job, net::Transport* transport,
                                   TrainingResult* result) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  auto training = train_over(job, &runtime, result);
  co_await training;
}

inline TrainingResult run_training(const TrainingJob& job) {
  TrainingResult result;
  result.outcomes.resize(static_cast<std::size_t>(job.ranks));
  result.recorders.resize(static_cast<std::size_t>(job.ranks));
  net::LoopbackOptions options;
  options.share_memory = job.share_memory;
  RankBody body = [&](net::Transport& transport) { return train_rank(&job, &transport, &result); };
  if (job.faults.longest_delay > Duration(0))
    run_delayed(job.ranks, body, job.faults, options);
  else
    run_ranks(job.ranks, body, options);
  return result;
}

}  // namespace taxon::test
