#include "train/start/restored.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/difference.h"
#include "plan/mesh.h"
#include "train/bytes.h"

namespace taxon::train {
namespace {

// What decides what is trained, and what of it does not.
constexpr std::string_view kDecisive[] = {"seed",   "model.",     "task.",      "data.",
                                          "batch.", "precision.", "optimiser.", "learning_rate."};
constexpr std::string_view kIndifferent[] = {"model.memory_format", "task.sample",  "data.path",
                                             "data.prefetch",       "data.threads", "data.check",
                                             "batch.micro_batches"};
// Keys of data that say how they are read, and not which.
constexpr std::string_view kHowRead[] = {"data.prefetch", "data.threads", "data.check"};
// Of stages that update by themselves.
constexpr std::string_view kOfUpdates[] = {"batch.micro_batches", "mesh.pipeline", "pipeline."};
constexpr std::string_view kActivations = "pipeline.activations";
// Of schedules that know the end of the run.
constexpr std::string_view kLength = "length.";
constexpr std::string_view kLimit = "length.seconds";

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::Checkpoint, path + ": " + what, {{}, "read checkpoint", path});
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

plan::Plan read_plan_of(const checkpoint::Checkpoint& checkpoint, const plan::Catalogue& known,
                        const std::string& path) {
  try {
    return plan::override_plan(plan::parse_plan(checkpoint.plan_yaml, path + "/plan.yaml"), {}, &known);
  } catch (const Error& error) {
    fail(path + "/plan.yaml", "is damaged, or another Taxon's: " + first_line(error.what()));
  }
}

void require_buckets_of(const model::ModelSpec& spec, const plan::Plan& plan, const std::string& path) {
  try {
    exchange::lay_out(trainable(spec), plan.resolved.buckets, plan.precision.master);
  } catch (const Error& error) {
    fail(path + "/plan.yaml", "is damaged: " + first_line(error.what()));
  }
}

/// Where stages update their weights in the midst of a step, its micro-batches and stages decide, too.
bool stages_update_alone(const plan::Plan& plan, const plan::Catalogue& known) {
  const plan::Catalogue::Pipeline* row = known.find_pipeline(plan.pipeline.schedule);
  return plan.mesh.pipeline > 1 && row && !row->flushes;
}

bool is_decisive(const plan::Difference& difference, const plan::Plan& before, const plan::Plan& plan,
                 const plan::Catalogue& known) {
  auto begins = [&](std::string_view prefix) { return difference.key.starts_with(prefix); };
  if (stages_update_alone(before, known) || stages_update_alone(plan, known))
    if (!begins(kActivations) && std::any_of(std::begin(kOfUpdates), std::end(kOfUpdates), begins))
      return true;
  if (std::any_of(std::begin(kIndifferent), std::end(kIndifferent), begins)) return false;
  const plan::Catalogue::Schedule* schedule = known.find_schedule(plan.learning_rate.schedule);
  if (begins(kLength) && !begins(kLimit)) return schedule && schedule->knows_the_end;
  return std::any_of(std::begin(kDecisive), std::end(kDecisive), begins);
}

std::vector<plan::Difference> decisive_differences(const plan::Plan& before, const plan::Plan& now,
                                                   const plan::Catalogue& known) {
  auto all = plan::differences(before, now);
  std::erase_if(all, [&](const auto& difference) { return !is_decisive(difference, before, now, known); });
  return all;
}

std::string in_words(const std::vector<plan::Difference>& differences) {
  std::vector<std::string> words;
  for (const plan::Difference& difference : differences) words.push_back(plan::describe(difference));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// A row's keys come and go with the row, whose name was changed on purpose.
bool goes_with_its_row(const plan::Difference& difference, const std::vector<plan::Difference>& all,
                       const std::vector<plan::Difference>& secret) {
  if (!difference.before.empty() && !difference.now.empty()) return false;
  return std::any_of(all.begin(), all.end(), [&](const plan::Difference& name) {
    const bool names_row = name.key == "optimiser.rule" || name.key == "learning_rate.schedule" ||
                           name.key == "pipeline.schedule";
    const bool on_purpose = std::none_of(
        secret.begin(), secret.end(), [&](const plan::Difference& other) { return other.key == name.key; });
    return names_row && on_purpose && difference.key.starts_with(name.key.substr(0, name.key.find('.') + 1));
  });
}

void require_same_plan(const std::vector<plan::Difference>& all, const TrainOptions& options,
                       const std::string& path) {
  auto secret = plan::not_given(all, options.assignments);
  const auto named = secret;
  std::erase_if(secret, [&](const plan::Difference& each) { return goes_with_its_row(each, all, named); });
  if (secret.empty()) return;
  std::vector<std::string> assignments;
  for (const plan::Difference& difference : secret)
    assignments.push_back(fmt::format("--set {}={}", difference.key, difference.now));
  throw Error(ErrorKind::Usage,
              fmt::format("{} was trained otherwise: {}; take that recipe, or change it on purpose with {}",
                          path, in_words(secret), fmt::join(assignments, " ")),
              {{}, "resume", path});
}

/// The order of an epoch and which samples are for validation are drawn from as many.
void require_same_samples(std::int64_t before, std::int64_t now, const TrainOptions& options,
                          const std::string& path) {
  const auto names_data = [](const std::string& assignment) {
    const auto begins = [&](std::string_view prefix) { return assignment.starts_with(prefix); };
    return begins("data.") && std::none_of(std::begin(kHowRead), std::end(kHowRead), begins);
  };
  if (before == 0 || before == now ||
      std::any_of(options.assignments.begin(), options.assignments.end(), names_data))
    return;
  throw Error(
      ErrorKind::Usage,
      fmt::format("{} was trained on {} samples, and the training set has {}: epochs would be others, "
                  "and samples kept for validation could be trained on; take that data, or say that "
                  "it is meant with --set data.path={}",
                  path, before, now, options.plan.data.path),
      {{}, "resume", path});
}

}  // namespace

std::optional<Restored> read_restored(const data::Storage& storage, const model::Model& model,
                                      const model::ModelSpec& whole, std::int64_t train_samples,
                                      const TrainOptions& options) {
  const bool any = options.plan.on_divergence == plan::OnDivergence::Ignore;
  auto found = options.resume_step
                   ? checkpoint::load_step(storage, options.out, *options.resume_step)
                   : checkpoint::load_newest(storage, options.out,
                                             any ? checkpoint::Weights::Any : checkpoint::Weights::Finite);
  if (!found) return std::nullopt;
  Restored restored{std::move(found->checkpoint), {}, {}, {}};
  const std::string& path = found->path;
  const plan::Catalogue known = exchange::catalogue(options.own);
  restored.plan = read_plan_of(restored.checkpoint, known, path);
  const bool divided = is_divided(options.plan, options.own);
  const bool was_divided = is_divided(restored.plan, options.own);  // each part had its own buckets
  if (restored.plan.resolved.buckets.empty() != was_divided)
    fail(path + "/plan.yaml",
         was_divided ? "is damaged: it has buckets of a part" : "is damaged: it has no buckets");
  restored.parameters = parameters_from(restored.checkpoint.weights, whole, path);
  // Both with their rows' keys spelled out.
  const auto differences =
      decisive_differences(restored.plan, plan::override_plan(options.plan, {}, &known), known);
  require_same_plan(differences, options, path);
  require_same_samples(restored.plan.resolved.train_samples, train_samples, options, path);
  if (!was_divided) require_buckets_of(whole, restored.plan, path);
  for (std::size_t rank = 0; !divided && !was_divided && rank < restored.checkpoint.per_rank.size(); ++rank)
    require_rank_state(model, restored.checkpoint.per_rank[rank],
                       fmt::format("{}/rank-{:05}.safetensors", path, rank));
  if (const auto delayed = Delayed::find(restored.checkpoint))
    if (delayed->clock.step != restored.checkpoint.steps - 1)
      fail(path + "/optimiser.safetensors", "is damaged: its delayed step is not the last one");
  for (const std::string& reason : found->passed_over)
    restored.notices.push_back(fmt::format("{}; an older checkpoint takes its place", reason));
  if (!found->passed_over.empty()) restored.notices.push_back("resumed from " + path);
  if (!differences.empty())
    restored.notices.push_back("as told, otherwise than before: " + in_words(differences));
  return restored;
}

}  // namespace taxon::train
