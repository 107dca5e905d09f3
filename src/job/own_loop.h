#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "job/step_turns.h"
#include "job/training.h"

namespace taxon::job {

struct OwnLoopOptions {
  /// Of the training set, which the plan counts its epochs by; of all ranks together.
  std::int64_t samples = 0;
  /// As train()'s: where files go, how the run starts.
  train::TrainOptions train = {};
  /// Called on a thread of the run's. Null: notices go where the job's lines go.
  train::Observer* observer = nullptr;
  /// AsRead: exchanges hide behind the forward pass too. From one step's end to the next one's backward pass
  /// weights must then be read by operators of the loop's thread alone: not by data_ptr(), torch::save() or
  /// another thread.
  model::WeightsAtBegin weights = model::WeightsAtBegin::Whole;
};

/// A run of train() whose steps the program's own loop computes. The run has a thread of its own; until it is
/// over nothing but fail() may be called on the job.
class OwnLoop {
 public:
  /// Starts the run, and waits for its first step. Everything outlives the loop. Throws as train().
  OwnLoop(Job& job, model::Model& model, StepTurns& turns, OwnLoopOptions options);
  /// A run that is not over fails: its program left the loop.
  ~OwnLoop();
  OwnLoop(const OwnLoop&) = delete;

  /// The step that this rank is to compute; null: the run is over.
  const model::StepInput* step() const { return turns_.current(); }
  /// Gives the step back, and waits until the next one begins. Throws as train().
  void next(const model::StepOutput& output);
  /// Ranks agree on it when the next step begins: that is the last, and the run saves a checkpoint.
  void stop() { stop_ = true; }
  /// REQUIRES: the run is over, and well.
  const train::Outcome& outcome() const { return *outcome_; }

 private:
  void await();
  void end();

  Job& job_;
  StepTurns& turns_;
  const std::atomic<bool>* asked_to_stop_ = nullptr;  // by the program
  std::atomic<bool> stop_ = false;
  std::unique_ptr<train::Observer> own_observer_;
  data::Datasets data_;
  std::optional<train::Outcome> outcome_;
  std::thread run_;
};

}  // namespace taxon::job
