#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "plan/mesh.h"

namespace taxon::plan {

std::string plan_hash(const Plan& plan) {
  // Ranks may differ in how they reach and watch each other and in what they report; `resolved` is decided
  // after the ranks have agreed.
  Plan agreed = plan;
  agreed.control = {};
  agreed.report = {};
  agreed.resolved = {};
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a: the same on every machine and in every version
  for (char c : write_plan(agreed)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

std::string describe(const BucketPlan& bucket) {
  std::string names = fmt::format("{}", fmt::join(bucket.parameters, ", "));
  return bucket.parts > 1 ? fmt::format("{}, part {} of {}", names, bucket.part + 1, bucket.parts) : names;
}

std::string describe(const EmulationPlan& emulation) {
  std::vector<std::string> parts;
  if (emulation.cores > 0) parts.push_back(fmt::format("each worker has {:g} cores", emulation.cores));
  for (const SlowdownPlan& slow : emulation.slow) {
    const std::string who = slow.rank < 0 ? "every worker" : fmt::format("rank {}", slow.rank);
    const std::string when =
        slow.probability < 1 ? fmt::format(" with probability {:g}", slow.probability) : "";
    parts.push_back(fmt::format("kernels of {} take {:g} times as long{}", who, slow.slowdown, when));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

int workers(const Plan& plan, int world_size) {
  return std::max(1, (world_size - plan.mesh.servers) / ranks_of_replica(plan.mesh));
}

std::int64_t global_batch(const Plan& plan, int world_size) {
  return plan.batch.global > 0 ? plan.batch.global : plan.batch.per_worker * workers(plan, world_size);
}

std::int64_t largest_share(const Plan& plan, int world_size) {
  const int count = workers(plan, world_size);
  return (global_batch(plan, world_size) + count - 1) / count;
}

std::int64_t total_samples(const Plan& plan, int world_size, std::int64_t train_size, Reached reached) {
  TAXON_CHECK(train_size > 0, "train_size=", train_size);
  if (plan.length.samples > 0) return plan.length.samples;
  if (plan.length.epochs > 0)
    return std::max<std::int64_t>(1, std::llround(plan.length.epochs * static_cast<double>(train_size)));
  // A step never crosses the end of an epoch, so the last one of each epoch may be short.
  std::int64_t batch = global_batch(plan, world_size);
  TAXON_CHECK(batch > 0, "the plan gives no batch size");
  const auto steps_for = [batch](std::int64_t samples) { return (samples + batch - 1) / batch; };
  const std::int64_t left = plan.length.steps - reached.steps;
  if (left <= 0) return reached.samples;
  const std::int64_t of_epoch = train_size - reached.samples % train_size;
  if (left < steps_for(of_epoch)) return reached.samples + left * batch;
  const std::int64_t after = left - steps_for(of_epoch), per_epoch = steps_for(train_size);
  return reached.samples + of_epoch + after / per_epoch * train_size + after % per_epoch * batch;
}

}  // namespace taxon::plan
