#include "plan/legality_codecs.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/broken.h"

namespace taxon::plan {
namespace {

bool has_codec(const LevelPlan& level) { return level.codec.name != "none" || level.codec.answer != "none"; }

/// The first level with a codec of which `broken` says something.
Violation any_coded(const LegalityInput& c, Violation (*broken)(const LegalityInput&, const LevelPlan&)) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (has_codec(level))
      if (auto said = broken(c, level)) return said;
  return {};
}

Violation codecs_known(const LegalityInput& c, const LevelPlan& level) {
  std::vector<std::string> names = names_of(c.known.codecs);
  if (names.empty()) return {};
  names.emplace_back("auto");
  return known_name(level.codec.name, names, "none");
}

Violation candidate_known(const LegalityInput& c, const LevelPlan& level) {
  if (level.codec.name != "auto") return {};
  return known_name(level.codec.of, names_of(c.known.codecs));
}

/// What is known of the level's codec; an unknown one is another row's complaint.
Catalogue::Codec codec_of(const LegalityInput& c, const LevelPlan& level) {
  if (const Catalogue::Codec* codec = c.known.find_codec(level.codec.candidate())) return *codec;
  return {.name = level.codec.candidate(), .sends_entries = true};
}

Violation answers_known(const LegalityInput& c, const LevelPlan& level) {
  return known_name(level.codec.answer, names_of(c.known.codecs), "none");
}

bool at_servers(const LegalityInput& c, const LevelPlan& level) {
  return c.known.sum_at(level) == SumAt::Servers;
}
bool at_everyone(const LegalityInput& c, const LevelPlan& level) {
  return c.known.sum_at(level) == SumAt::Everyone;
}

/// An unknown rule is another row's complaint.
bool is_linear(const LegalityInput& c) {
  const Catalogue::Rule* rule = c.known.find_rule(c.plan.optimiser.rule);
  return !rule || rule->is_linear;
}

Violation codec_carried(const LegalityInput& c, const LevelPlan& level) {
  return unless(c.known.sum_at(level) != SumAt::Nowhere, fmt::format("it is {}", level.topology));
}

Violation codec_at_servers(const LegalityInput& c, const LevelPlan& level) {
  return unless(!at_servers(c, level) || (level.rule == "sum" && level.codec.warmup_density.empty() &&
                                          level.codec.dense_steps == 0),
                fmt::format("rule is {}, warmup_density has {} values, dense_steps is {}", level.rule,
                            level.codec.warmup_density.size(), level.codec.dense_steps));
}

Violation answers_of_servers(const LegalityInput& c, const LevelPlan& level) {
  if (level.codec.answer == "none") return {};
  LevelPlan back = level;
  back.codec.name = level.codec.answer;
  const Catalogue::Late* late = c.known.find_late(level.late);
  const bool served = late && late->keeps_served;
  return unless(at_servers(c, level) && codec_of(c, back).stands_alone && !served,
                fmt::format("topology is {}, answer is {}, late is {}", level.topology, level.codec.answer,
                            level.late));
}

Violation codec_alone(const LegalityInput& c, const LevelPlan& level) {
  const auto codec = codec_of(c, level);
  const bool asked = codec.asks && at_servers(c, level);
  return unless(at_everyone(c, level) || codec.stands_alone || asked,
                fmt::format("codec is {}, topology is {}", level.codec.name, level.topology));
}

/// What a server answers is what became of the entries that counted, in this step, and of nothing else.
Violation codec_asked(const LegalityInput& c, const LevelPlan& level) {
  if (!at_servers(c, level) || !codec_of(c, level).asks) return {};
  const ConsistencyBounds bounds = c.known.bounds_of(level);
  const OptimiserPlan& optimiser = c.plan.optimiser;
  return unless(bounds.in_step() && level.late == LevelPlan().late && level.codec.answer == "none" &&
                    level.codec.feedback != FeedbackKind::None && is_linear(c) && optimiser.weight_decay == 0,
                fmt::format("consistency is {} ({}), late {}, answer {}, feedback {}, optimiser.rule {}, "
                            "weight_decay {}",
                            level.consistency, bounds.words, level.late, level.codec.answer,
                            level.codec.feedback, optimiser.rule, optimiser.weight_decay));
}

Violation codec_of_replicas(const LegalityInput& c, const LevelPlan& level) {
  if (level.rule == "sum") return {};
  return unless(level.inner_state != InnerState::Average && !codec_of(c, level).votes,
                fmt::format("rule is {}, inner_state is {}, codec is {}", level.rule, level.inner_state,
                            level.codec.name));
}

Violation codec_typed(const LegalityInput& c, const LevelPlan&) {
  return unless(c.plan.precision.master == DType::Float32,
                fmt::format("it is {}", to_string(c.plan.precision.master)));
}

Violation codec_in_step(const LegalityInput& c, const LevelPlan&) {
  const ExchangePlan& exchange = c.plan.exchange;
  return unless(exchange.delay == 0 && exchange.gradients == GradientMemory::Whole,
                fmt::format("delay is {}, gradients is {}", exchange.delay, exchange.gradients));
}

Violation codec_chooses(const LegalityInput& c, const LevelPlan& level) {
  const bool free = codec_of(c, level).linear && level.codec.name != "auto";
  return unless(level.collective == "auto" || free,
                fmt::format("codec is {}, collective is {}", level.codec.name, level.collective));
}

Violation density_known(const LegalityInput& c, const LevelPlan& level) {
  const std::vector<OptionKey> keys = own_keys(level.codec, c.known);
  return unless(
      level.codec.warmup_density.empty() ||
          std::any_of(keys.begin(), keys.end(), [](const auto& key) { return key.key == "density"; }),
      fmt::format("codec is {}", level.codec.candidate()));
}

Violation codec_global(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  for (const LevelPlan& level : levels) {
    if (!level.codec.global) continue;
    if (level.codec.name == "none" || level.codec.name == "auto") return "codec is " + level.codec.name;
    return unless(levels.size() == 1 && at_everyone(c, level) && level.rule == "sum" &&
                      level.factors == FactorUse::None,
                  fmt::format("there are {} level(s), topology is {}, rule is {}, factors is {}",
                              levels.size(), level.topology, level.rule, level.factors));
  }
  return {};
}

Violation codec_outside_nodes(const LegalityInput&, const LevelPlan& level) {
  return unless(level.group != LevelGroup::Node || level.codec.force, "force is false");
}

Violation codec_remembers(const LegalityInput& c, const LevelPlan& level) {
  const auto codec = codec_of(c, level);
  return unless(
      !codec.biased || codec.votes || level.codec.feedback != FeedbackKind::None || level.codec.force,
      fmt::format("codec is {}, feedback is none", level.codec.candidate()));
}

Violation momentum_once(const LegalityInput& c, const LevelPlan& level) {
  return unless(level.codec.momentum == 0 || is_linear(c),
                fmt::format("optimiser.rule is {}", c.plan.optimiser.rule));
}

Violation momentum_of_gradients(const LegalityInput&, const LevelPlan& level) {
  return unless(level.codec.momentum == 0 || level.rule == "sum", fmt::format("rule is {}", level.rule));
}

Violation decays_errors(const LegalityInput&, const LevelPlan& level) {
  return unless(level.codec.decay == 1 || level.codec.momentum == 0,
                fmt::format("momentum is {}", level.codec.momentum));
}

/// As exchange::keeps_errors().
Violation decay_kept(const LegalityInput& c, const LevelPlan& level) {
  const Catalogue::Codec codec = codec_of(c, level);
  const FeedbackKind feedback = level.codec.feedback;
  const bool keeps = feedback == FeedbackKind::Auto
                         ? !codec.votes && (codec.biased || level.codec.momentum > 0)
                         : feedback != FeedbackKind::None;
  return unless(level.codec.decay == 1 || keeps,
                fmt::format("codec is {}, feedback is {}", codec.name, to_string(feedback)));
}

Violation momentum_kept(const LegalityInput& c, const LevelPlan& level) {
  return unless(
      level.codec.momentum == 0 || level.codec.feedback != FeedbackKind::None || codec_of(c, level).votes,
      "feedback is none");
}

Violation differences_of_gradients(const LegalityInput& c, const LevelPlan& level) {
  if (level.codec.feedback != FeedbackKind::Difference) return {};
  return unless(
      at_everyone(c, level) && level.rule == "sum" && codec_of(c, level).stands_alone &&
          level.codec.momentum == 0 && level.codec.decay == 1 && level.codec.dense_steps == 0,
      fmt::format("topology is {}, rule is {}, codec is {}, momentum is {}, decay is {}, dense_steps "
                  "is {}",
                  level.topology, level.rule, level.codec.name, level.codec.momentum, level.codec.decay,
                  level.codec.dense_steps));
}

Violation votes_forget(const LegalityInput& c, const LevelPlan& level) {
  return unless(!codec_of(c, level).votes || level.codec.feedback == FeedbackKind::Auto ||
                    level.codec.feedback == FeedbackKind::None,
                fmt::format("codec is {}", level.codec.candidate()));
}

Violation masks_entries(const LegalityInput& c, const LevelPlan& level) {
  return unless(level.codec.momentum == 0 || !level.codec.masking || codec_of(c, level).sends_entries,
                fmt::format("codec is {}", level.codec.candidate()));
}

using enum LegalityRow::About;

constexpr LegalityRow kCodecLegality[] = {
    {"exchange.levels.codec", "must be none or name a codec",
     [](const LegalityInput& c) { return any_coded(c, codecs_known); }, Name},
    {"exchange.levels.codec.of", "must name a codec where the codec is auto",
     [](const LegalityInput& c) { return any_coded(c, candidate_known); }, Name},
    {"exchange.levels.codec.answer", "must be none or name a codec",
     [](const LegalityInput& c) { return any_coded(c, answers_known); }, Name},
    {"exchange.levels.topology",
     "must be all_reduce, sharded or servers where a level has a codec; all_reduce with rule sum for auto",
     [](const LegalityInput& c) { return any_coded(c, codec_carried); }},
    {"exchange.levels.codec",
     "at servers needs rule sum, no warmup_density and dense_steps 0: their wires have one size",
     [](const LegalityInput& c) { return any_coded(c, codec_at_servers); }},
    {"exchange.levels.codec.answer",
     "needs topology servers, a codec of a single round, and none of the late rules that keep what was "
     "served",
     [](const LegalityInput& c) { return any_coded(c, answers_of_servers); }},
    {"exchange.levels.codec",
     "must be one of a single round, neither merged nor voted, where each member owns a part, or at "
     "servers one whose second round they can hold",
     [](const LegalityInput& c) { return any_coded(c, codec_alone); }},
    {"exchange.levels.codec",
     "of two rounds at servers, whose answers are the entries that changed, needs a consistency that keeps "
     "workers in step, late as_others, optimiser.rule sgd with weight_decay 0, a memory of errors and answer "
     "none",
     [](const LegalityInput& c) { return any_coded(c, codec_asked); }},
    {"exchange.levels.codec",
     "where replicas meet needs inner_state keep or reset, and no votes, which say nothing of how far "
     "replicas "
     "went",
     [](const LegalityInput& c) { return any_coded(c, codec_of_replicas); }},
    {"precision.master", "must be float32 where a level has a codec",
     [](const LegalityInput& c) { return any_coded(c, codec_typed); }},
    {"exchange.levels.codec", "needs exchange.delay 0 and exchange.gradients whole",
     [](const LegalityInput& c) { return any_coded(c, codec_in_step); }},
    {"exchange.levels.codec",
     "needs collective auto: what wires travel by follows from their sizes; an all-reduce can be named where "
     "it sums the wires",
     [](const LegalityInput& c) { return any_coded(c, codec_chooses); }},
    {"exchange.levels.codec.warmup_density", "needs a codec whose entries are a share of the values",
     [](const LegalityInput& c) { return any_coded(c, density_known); }},
    {"exchange.levels.codec.global",
     "needs a codec by name on a single level, of topology all_reduce, rule sum and no factors",
     codec_global},
    {"exchange.levels.codec",
     "inside a node mostly costs more than it saves; put it on the level across, or say force: true",
     [](const LegalityInput& c) { return any_coded(c, codec_outside_nodes); }},
    {"exchange.levels.codec.feedback",
     "a biased codec needs feedback memory, without which training goes wrong; or say force: true",
     [](const LegalityInput& c) { return any_coded(c, codec_remembers); }},
    {"optimiser.rule", "must be sgd where a codec has momentum, which would be applied twice",
     [](const LegalityInput& c) { return any_coded(c, momentum_once); }},
    {"exchange.levels.codec.momentum", "needs rule sum: where replicas meet the rule has momentum",
     [](const LegalityInput& c) { return any_coded(c, momentum_of_gradients); }},
    {"exchange.levels.codec.decay", "must be 1 where the codec has momentum, which decays velocities",
     [](const LegalityInput& c) { return any_coded(c, decays_errors); }},
    {"exchange.levels.codec.decay", "needs a memory of errors, which fades by it",
     [](const LegalityInput& c) { return any_coded(c, decay_kept); }},
    {"exchange.levels.codec.momentum", "needs a memory of errors, which velocities are added to",
     [](const LegalityInput& c) { return any_coded(c, momentum_kept); }},
    {"exchange.levels.codec.feedback",
     "difference needs topology all_reduce, rule sum, a codec of a single round, neither merged nor voted, "
     "momentum 0, decay 1 and dense_steps 0",
     [](const LegalityInput& c) { return any_coded(c, differences_of_gradients); }},
    {"exchange.levels.codec.feedback",
     "must be auto or none for a codec that votes: without magnitudes nobody knows what did not travel",
     [](const LegalityInput& c) { return any_coded(c, votes_forget); }},
    {"exchange.levels.codec.masking", "needs a codec that sends entries; use masking: false",
     [](const LegalityInput& c) { return any_coded(c, masks_entries); }},
};

}  // namespace

std::span<const LegalityRow> codec_legality() { return kCodecLegality; }

}  // namespace taxon::plan
