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
  std::vector<std::string> names;
  for (const auto& codec : c.known.codecs) names.push_back(codec.name);
  names.emplace_back("auto");
  return known_name(level.codec.name, names, "none");
}

Violation candidate_known(const LegalityInput& c, const LevelPlan& level) {
  if (level.codec.name != "auto") return {};
  std::vector<std::string> names;
  for (const auto& codec : c.known.codecs) names.push_back(codec.name);
  return known_name(level.codec.of, names);
}

/// What is known of the level's codec; an unknown one is another row's complaint.
KnownNames::Codec codec_of(const LegalityInput& c, const LevelPlan& level) {
  for (const auto& codec : c.known.codecs)
    if (codec.name == level.codec.candidate()) return codec;
  return {.name = level.codec.candidate(), .sends_entries = true};
}

Violation answers_known(const LegalityInput& c, const LevelPlan& level) {
  std::vector<std::string> names;
  for (const auto& codec : c.known.codecs) names.push_back(codec.name);
  return known_name(level.codec.answer, names, "none");
}

Violation codec_carried(const LegalityInput&, const LevelPlan& level) {
  return unless(level.topology == "all_reduce" || level.topology == "sharded" || level.topology == "servers",
                fmt::format("it is {}", level.topology));
}

Violation codec_at_servers(const LegalityInput&, const LevelPlan& level) {
  return unless(level.topology != "servers" || (level.rule == "sum" && level.codec.warmup_density.empty() &&
                                                level.codec.dense_steps == 0),
                fmt::format("rule is {}, warmup_density has {} values, dense_steps is {}", level.rule,
                            level.codec.warmup_density.size(), level.codec.dense_steps));
}

Violation answers_of_servers(const LegalityInput& c, const LevelPlan& level) {
  if (level.codec.answer == "none") return {};
  LevelPlan back = level;
  back.codec.name = level.codec.answer;
  bool served = false;
  for (const auto& late : c.known.lates) served = served || (late.name == level.late && late.keeps_served);
  return unless(level.topology == "servers" && codec_of(c, back).stands_alone && !served,
                fmt::format("topology is {}, answer is {}, late is {}", level.topology, level.codec.answer,
                            level.late));
}

Violation codec_alone(const LegalityInput& c, const LevelPlan& level) {
  const auto codec = codec_of(c, level);
  const bool asked = codec.asks && level.topology == "servers";
  return unless(level.topology == "all_reduce" || codec.stands_alone || asked,
                fmt::format("codec is {}, topology is {}", level.codec.name, level.topology));
}

/// What a server answers is what became of the entries that counted, in this step, and of nothing else.
Violation codec_asked(const LegalityInput& c, const LevelPlan& level) {
  if (level.topology != "servers" || !codec_of(c, level).asks) return {};
  const bool in_step = level.staleness == 0 && level.quorum == 0 && level.apply == 0;
  const OptimiserPlan& optimiser = c.plan.optimiser;
  return unless(
      in_step && level.late == LevelPlan().late && level.codec.answer == "none" && level.codec.reuse == 1 &&
          level.codec.feedback != "none" && optimiser.rule == "sgd" && optimiser.weight_decay == 0,
      fmt::format("staleness is {}, quorum {}, apply {}, late {}, answer {}, reuse {}, feedback {}, "
                  "optimiser.rule {}, weight_decay {}",
                  level.staleness, level.quorum, level.apply, level.late, level.codec.answer,
                  level.codec.reuse, level.codec.feedback, optimiser.rule, optimiser.weight_decay));
}

Violation codec_of_replicas(const LegalityInput& c, const LevelPlan& level) {
  if (level.rule == "sum") return {};
  return unless(level.rule != "elastic" && level.inner_state != "average" && !codec_of(c, level).votes,
                fmt::format("rule is {}, inner_state is {}, codec is {}", level.rule, level.inner_state,
                            level.codec.name));
}

Violation codec_typed(const LegalityInput& c, const LevelPlan&) {
  return unless(c.plan.precision.master == DType::Float32,
                fmt::format("it is {}", to_string(c.plan.precision.master)));
}

Violation codec_in_step(const LegalityInput& c, const LevelPlan&) {
  const ExchangePlan& exchange = c.plan.exchange;
  return unless(exchange.delay == 0 && exchange.gradients == "whole",
                fmt::format("delay is {}, gradients is {}", exchange.delay, exchange.gradients));
}

Violation codec_chooses(const LegalityInput& c, const LevelPlan& level) {
  const bool free = codec_of(c, level).linear && level.codec.name != "auto";
  return unless(level.collective == "auto" || free,
                fmt::format("codec is {}, collective is {}", level.codec.name, level.collective));
}

Violation sketch_lasts(const LegalityInput&, const LevelPlan& level) {
  const CodecPlan& codec = level.codec;
  return unless(
      codec.reuse == 1 || (codec.candidates == 1 && (codec.entries > 0 || codec.density * codec.reuse <= 1)),
      fmt::format("reuse is {}, candidates {}, density {}", codec.reuse, codec.candidates, codec.density));
}

/// Codecs whose wires follow from the number of a range's values; of the others members own parts.
bool counts_entries(const std::string& codec) {
  constexpr std::string_view kCounted[] = {"random_k",     "top_k",         "gtop_k",
                                           "packed_top_k", "packed_gtop_k", "count_sketch"};
  return std::find(std::begin(kCounted), std::end(kCounted), codec) != std::end(kCounted);
}

Violation codec_counts(const LegalityInput&, const LevelPlan& level) {
  const std::string& codec = level.codec.candidate();
  if (level.codec.column_count > 0 && codec != "count_sketch")
    return fmt::format("column_count is {}, codec is {}", level.codec.column_count, codec);
  return unless(level.codec.entries == 0 || counts_entries(codec),
                fmt::format("entries is {}, codec is {}", level.codec.entries, codec));
}

Violation codec_counted_whole(const LegalityInput&, const LevelPlan& level) {
  return unless((level.codec.entries == 0 && level.codec.column_count == 0) || level.topology == "all_reduce",
                fmt::format("topology is {}", level.topology));
}

Violation codec_global(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  for (const LevelPlan& level : levels) {
    if (!level.codec.global) continue;
    if (level.codec.name == "none" || level.codec.name == "auto") return "codec is " + level.codec.name;
    return unless(levels.size() == 1 && level.topology == "all_reduce" && level.rule == "sum" &&
                      level.factors == "none",
                  fmt::format("there are {} level(s), topology is {}, rule is {}, factors is {}",
                              levels.size(), level.topology, level.rule, level.factors));
  }
  return {};
}

Violation codec_bits(const LegalityInput&, const LevelPlan& level) {
  const int bits = level.codec.bits;
  const bool two = bits == 2 && level.codec.candidate() != "split_sketch";
  return unless(two || bits == 4 || bits == 8, fmt::format("it is {}", bits));
}

Violation codec_table_type(const LegalityInput&, const LevelPlan& level) {
  const std::string &codec = level.codec.candidate(), &table = level.codec.table;
  const bool whole = table == "int8" || table == "int4";
  return unless((codec != "count_sketch" || !whole) && (codec != "split_sketch" || whole),
                fmt::format("codec is {}, table is {}", codec, table));
}

Violation codec_block(const LegalityInput&, const LevelPlan& level) {
  return unless(level.codec.block % 64 == 0, fmt::format("it is {}", level.codec.block));
}

Violation codec_rows(const LegalityInput&, const LevelPlan& level) {
  return unless(level.codec.rows % 2 == 1, fmt::format("it is {}", level.codec.rows));
}

Violation codec_neighbours(const LegalityInput&, const LevelPlan& level) {
  const int neighbours = level.codec.neighbours;
  return unless((neighbours & (neighbours - 1)) == 0, fmt::format("it is {}", neighbours));
}

Violation codec_outside_nodes(const LegalityInput&, const LevelPlan& level) {
  return unless(level.group != "node" || level.codec.force, "force is false");
}

Violation codec_remembers(const LegalityInput& c, const LevelPlan& level) {
  const auto codec = codec_of(c, level);
  return unless(!codec.biased || codec.votes || level.codec.feedback != "none" || level.codec.force,
                fmt::format("codec is {}, feedback is none", level.codec.candidate()));
}

Violation codec_adaptive(const LegalityInput& c, const LevelPlan& level) {
  if (level.rule != "sum") return {};
  const OptimiserPlan& optimiser = c.plan.optimiser;
  const bool frozen = optimiser.freeze_steps > 0 && level.codec.dense_steps >= optimiser.freeze_steps;
  return unless(!codec_of(c, level).biased || optimiser.rule != "adamw" || frozen || level.codec.force,
                fmt::format("codec is {}, freeze_steps is {}, dense_steps is {}", level.codec.candidate(),
                            optimiser.freeze_steps, level.codec.dense_steps));
}

Violation frozen_moments(const LegalityInput& c) {
  const OptimiserPlan& optimiser = c.plan.optimiser;
  if (optimiser.freeze_steps == 0) return {};
  const ExchangePlan& exchange = c.plan.exchange;
  for (const LevelPlan& level : exchange.levels)
    if (level.topology != "all_reduce" || level.rule != "sum")
      return fmt::format("topology is {}, rule is {}", level.topology, level.rule);
  return unless(optimiser.rule == "adamw" && optimiser.clip_norm == 0 && exchange.delay == 0 &&
                    exchange.gradients == "whole",
                fmt::format("optimiser.rule is {}, clip_norm is {}, delay is {}, gradients is {}",
                            optimiser.rule, optimiser.clip_norm, exchange.delay, exchange.gradients));
}

Violation momentum_once(const LegalityInput& c, const LevelPlan& level) {
  return unless(level.codec.momentum == 0 || c.plan.optimiser.rule == "sgd",
                fmt::format("optimiser.rule is {}", c.plan.optimiser.rule));
}

Violation momentum_of_gradients(const LegalityInput&, const LevelPlan& level) {
  return unless(level.codec.momentum == 0 || level.rule == "sum", fmt::format("rule is {}", level.rule));
}

Violation decays_errors(const LegalityInput&, const LevelPlan& level) {
  return unless(level.codec.decay == 1 || level.codec.momentum == 0,
                fmt::format("momentum is {}", level.codec.momentum));
}

Violation momentum_kept(const LegalityInput& c, const LevelPlan& level) {
  return unless(level.codec.momentum == 0 || level.codec.feedback != "none" || codec_of(c, level).votes,
                "feedback is none");
}

Violation differences_of_gradients(const LegalityInput& c, const LevelPlan& level) {
  if (level.codec.feedback != "difference") return {};
  return unless(
      level.topology == "all_reduce" && level.rule == "sum" && codec_of(c, level).stands_alone &&
          level.codec.momentum == 0 && level.codec.decay == 1 && level.codec.dense_steps == 0,
      fmt::format("topology is {}, rule is {}, codec is {}, momentum is {}, decay is {}, dense_steps "
                  "is {}",
                  level.topology, level.rule, level.codec.name, level.codec.momentum, level.codec.decay,
                  level.codec.dense_steps));
}

Violation votes_forget(const LegalityInput& c, const LevelPlan& level) {
  return unless(!codec_of(c, level).votes || level.codec.feedback == "auto" || level.codec.feedback == "none",
                fmt::format("codec is {}", level.codec.candidate()));
}

Violation masks_entries(const LegalityInput& c, const LevelPlan& level) {
  return unless(level.codec.momentum == 0 || !level.codec.masking || codec_of(c, level).sends_entries,
                fmt::format("codec is {}", level.codec.candidate()));
}

constexpr LegalityRow kRows[] = {
    {"exchange.levels.codec", "must be none or name a codec",
     [](const LegalityInput& c) { return any_coded(c, codecs_known); }},
    {"exchange.levels.codec.of", "must name a codec where the codec is auto",
     [](const LegalityInput& c) { return any_coded(c, candidate_known); }},
    {"exchange.levels.codec.answer", "must be none or name a codec",
     [](const LegalityInput& c) { return any_coded(c, answers_known); }},
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
     "must be one of a single round, neither merged nor voted, where each member owns a part, or "
     "count_sketch "
     "at servers",
     [](const LegalityInput& c) { return any_coded(c, codec_alone); }},
    {"exchange.levels.codec",
     "of two rounds at servers, whose answers are the entries that changed, needs workers in step "
     "(staleness, "
     "quorum and apply 0, late as_others), optimiser.rule sgd with weight_decay 0, a memory of errors, reuse "
     "1 "
     "and answer none",
     [](const LegalityInput& c) { return any_coded(c, codec_asked); }},
    {"exchange.levels.codec",
     "where replicas meet needs another rule than elastic, whose replicas keep a share of what they did not "
     "send, inner_state keep or reset, and no votes, which say nothing of how far replicas went",
     [](const LegalityInput& c) { return any_coded(c, codec_of_replicas); }},
    {"precision.master", "must be float32 where a level has a codec",
     [](const LegalityInput& c) { return any_coded(c, codec_typed); }},
    {"exchange.levels.codec", "needs exchange.delay 0 and exchange.gradients whole",
     [](const LegalityInput& c) { return any_coded(c, codec_in_step); }},
    {"exchange.levels.codec",
     "needs collective auto: what wires travel by follows from their sizes; an all-reduce can be named where "
     "it "
     "sums the wires (random_k, count_sketch, power_sgd)",
     [](const LegalityInput& c) { return any_coded(c, codec_chooses); }},
    {"exchange.levels.codec.reuse",
     "of more than 1 needs candidates 1, since every exact value that travels counts, and a density that "
     "leaves "
     "as many entries for each step",
     [](const LegalityInput& c) { return any_coded(c, sketch_lasts); }},
    {"exchange.levels.codec",
     "entries needs a codec that has so many of a whole range (random_k, top_k, gtop_k and their packed "
     "forms, "
     "count_sketch), column_count needs count_sketch",
     [](const LegalityInput& c) { return any_coded(c, codec_counts); }},
    {"exchange.levels.codec",
     "entries and column_count need topology all_reduce, where no range is cut into parts",
     [](const LegalityInput& c) { return any_coded(c, codec_counted_whole); }},
    {"exchange.levels.codec.global",
     "needs a codec by name on a single level, of topology all_reduce, rule sum and no factors",
     codec_global},
    {"exchange.levels.codec.bits", "must be 2, 4 or 8; of split_sketch 4 or 8",
     [](const LegalityInput& c) { return any_coded(c, codec_bits); }},
    {"exchange.levels.codec.table",
     "must be float32 or bfloat16 for count_sketch, whose tables are summed as they are, and int8 or int4 "
     "for "
     "split_sketch",
     [](const LegalityInput& c) { return any_coded(c, codec_table_type); }},
    {"exchange.levels.codec.block", "must be a multiple of 64",
     [](const LegalityInput& c) { return any_coded(c, codec_block); }},
    {"exchange.levels.codec.rows", "must be odd, since estimates are medians",
     [](const LegalityInput& c) { return any_coded(c, codec_rows); }},
    {"exchange.levels.codec.neighbours", "must be a power of two",
     [](const LegalityInput& c) { return any_coded(c, codec_neighbours); }},
    {"exchange.levels.codec",
     "inside a node mostly costs more than it saves; put it on the level across, or say force: true",
     [](const LegalityInput& c) { return any_coded(c, codec_outside_nodes); }},
    {"exchange.levels.codec.feedback",
     "a biased codec needs feedback memory, without which training goes wrong; or say force: true",
     [](const LegalityInput& c) { return any_coded(c, codec_remembers); }},
    {"optimiser.rule",
     "adamw divides by a variance that a biased codec falsifies; let it stay after freeze_steps, and the "
     "codec "
     "begin no earlier, with as many dense_steps; or use sgd or momentum, or say force: true",
     [](const LegalityInput& c) { return any_coded(c, codec_adaptive); }},
    {"optimiser.freeze_steps",
     "needs optimiser.rule adamw, levels of topology all_reduce with rule sum, clip_norm 0, exchange.delay 0 "
     "and "
     "exchange.gradients whole, since what travels are first moments that all have alike",
     frozen_moments},
    {"optimiser.rule", "must be sgd where a codec has momentum, which would be applied twice",
     [](const LegalityInput& c) { return any_coded(c, momentum_once); }},
    {"exchange.levels.codec.momentum", "needs rule sum: where replicas meet the rule has momentum",
     [](const LegalityInput& c) { return any_coded(c, momentum_of_gradients); }},
    {"exchange.levels.codec.decay", "must be 1 where the codec has momentum, which decays velocities",
     [](const LegalityInput& c) { return any_coded(c, decays_errors); }},
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

std::span<const LegalityRow> codec_legality() { return kRows; }

}  // namespace taxon::plan
