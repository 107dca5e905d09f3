#pragma once

#include "support/training.h"
#include "support/virtual_ranks.h"

namespace taxon::test {

/// A training job in the virtual world.
struct VirtualRun {
  TrainingResult result;
  sim::Report report;
};

inline VirtualRun run_in_world(const TrainingJob& job, const plan::ClusterModel& cluster,
                               sim::WorldOptions options) {
  VirtualRun run;
  run.result.outcomes.resize(static_cast<std::size_t>(job.ranks));
  run.result.recorders.resize(static_cast<std::size_t>(job.ranks));
  sim::World world(cluster, job.ranks, options);
  sim::RankBody body = [&](comm::Runtime& runtime) { return train_over(&job, &runtime, &run.result); };
  run.report = world.run(body);
  return run;
}

/// Throws the first failure; a hang is one.
inline TrainingResult run_virtual_training(const TrainingJob& job, const plan::ClusterModel& cluster,
                                           std::uint64_t seed = 0) {
  VirtualRun run = run_in_world(job, cluster, {.seed = seed});
  if (run.report.failure) std::rethrow_exception(run.report.failure);
  return std::move(run.result);
}

}  // namespace taxon::test
