#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "model/model.h"
#include "plan/catalogue.h"
#include "sim/world.h"
#include "train/train.h"

namespace taxon::faults {

/// What is tried.
struct Job {
  plan::Plan recipe;
  plan::Catalogue known;  // what a plan may name
  const data::Datasets* datasets = nullptr;
  std::function<std::unique_ptr<model::Model>(const plan::Plan&, int rank)> make_model;
  /// Puts something between the training code and the world's transport, for tests that plant a bug. Null:
  /// nothing.
  std::function<std::unique_ptr<net::Transport>(net::Transport&)> wrap;
};

/// Where a run keeps its checkpoints, in its setup's storage.
inline constexpr const char* kRunFolder = "run";

/// One run of a job in a virtual world.
struct RunSetup {
  plan::Plan plan;
  plan::ClusterModel cluster;
  int ranks = 0;
  std::uint64_t seed = 0;
  data::Storage* storage = nullptr;  // rank 0's checkpoints
  train::TrainOptions::Start start = train::TrainOptions::Start::Fresh;
  Duration limit = Duration::max();  // of virtual time
};

/// What one rank did, seen from outside the training code.
struct Observations {
  std::int64_t first_step = 0;         // steps that were done before
  std::vector<std::uint64_t> weights;  // [i]: hash of what the backward pass of step first_step + i + 1 read
  std::int64_t reported = 0;           // the last step whose success was reported
  std::vector<double> rates;           // of the steps that were reported
  std::vector<double> gradients;       // [i]: sum over the elements of what the i-th backward pass gave
  double before = 0;                   // sum over the elements of the weights that the first one read
  exchange::AsyncEvents events;        // see train::TrainOptions
  std::vector<std::string> notices;
  std::optional<train::Outcome> outcome;  // it returned
};

struct SimulatedRun {
  sim::Report report;
  std::vector<Observations> ranks;
};

/// Trains in a world of Exact fidelity.
SimulatedRun perform(const Job& job, const RunSetup& setup);

}  // namespace taxon::faults
