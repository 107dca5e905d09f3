#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/transform.h"
#include "exchange/extensions.h"
#include "model/model.h"
#include "plan/axes.h"
#include "plan/legality.h"
#include "plan/reader.h"
#include "plan/reference.h"

namespace taxon::exchange {
namespace {

const std::filesystem::path kSource = TAXON_SOURCE_DIR;

/// Its models are rows that other builds lack.
bool has_libtorch() { return model::known_models().size() > 1; }

plan::Catalogue full_catalogue() {
  plan::Catalogue known = catalogue();
  known.models = model::known_models();
  known.may_lack_models = !has_libtorch();
  known.tasks = model::known_tasks();
  known.datasets = data::known_datasets();
  known.transforms = data::known_transforms();
  return known;
}

// TAXON_WRITE_DOCS=1 exchange_test --gtest_filter=Reference.* writes the page anew.
TEST(Reference, DocsPlanIsWhatTheTablesSay) {
  if (!has_libtorch()) GTEST_SKIP() << "the page has libtorch's models";
  auto path = kSource / "docs/plan.md";
  if (std::getenv("TAXON_WRITE_DOCS")) std::ofstream(path) << plan::plan_reference(full_catalogue());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), plan::plan_reference(full_catalogue()))
      << "run TAXON_WRITE_DOCS=1 exchange_test --gtest_filter=Reference.*";
}

TEST(Reference, NamesEveryKey) {
  std::string page = plan::plan_reference(full_catalogue());
  for (std::string key : plan::known_keys()) {
    bool listed =
        page.find("`" + key + "`") != std::string::npos || page.find("## " + key + "\n") != std::string::npos;
    for (auto dot = key.rfind('.'); dot != std::string::npos && dot > 0; dot = key.rfind('.', dot - 1))
      listed |= page.find("`" + key.substr(0, dot) + "[]" + key.substr(dot) + "`") != std::string::npos;
    EXPECT_TRUE(listed) << key;
  }
}

TEST(Recipes, AreLegal) {
  const plan::Catalogue known = full_catalogue();
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    const plan::Plan plan = plan::read_plan(entry.path(), {}, &known);
    for (int n : {1, 2, 4}) EXPECT_NO_THROW(plan::require_legal(plan::check_plan(plan, n, known)));
    EXPECT_EQ(plan.resolved, plan::ResolvedPlan{});
    EXPECT_EQ(plan.name, entry.path().stem());
  }
  EXPECT_GE(count, 3);
}

TEST(Recipes, OfAllKindsNameWhatIsThere) {
  const plan::Catalogue known = catalogue();  // of models and data others tell
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "recipes"))
    if (entry.path().extension() == ".yaml") {
      EXPECT_NO_THROW(plan::read_plan(entry.path(), {}, &known)) << entry.path();
    }
}

struct Misplaced {
  std::vector<plan::LevelPlan> levels;
  const char* message;
  int ranks = 2;
  const char* stages_by = nullptr;  // a schedule of two of them
};

std::vector<Misplaced> misplaced_rows() {
  using enum plan::LevelGroup;
  using enum plan::InnerState;
  return {
      {{{.group = Node, .topology = "sharded", .options = {{"parameters", "sharded"}}},
        {.group = Across, .topology = "sharded"}},
       "exchange.levels: parameters: sharded must be said of every level whose topology is sharded: that "
       "over across has not"},
      {{{.group = Node, .topology = "sharded", .options = {{"parameters", "sharded"}}},
        {.group = Across, .rule = "average"}},
       "exchange.levels: parameters: sharded needs sums of gradients on every level, without delay, factors "
       "and servers: replicas meet by rule average"},
      {{{.topology = "sharded", .options = {{"parameters", "sharded"}}}},
       "exchange.levels: parameters: sharded, which has the parameters of a stage segment by segment, needs "
       "pipeline.activations kept and a schedule of one update a step: pipeline.schedule is pipedream",
       2,
       "pipedream"},
      {{{.topology = "sharded", .codec = {.name = "top_k", .options = {{"entries", 7}}}}},
       "exchange.levels.codec.entries: needs topology all_reduce, where no range is cut into parts: topology "
       "is "
       "sharded"},
      {{{.topology = "servers", .codec = {.name = "int8", .answer = "top_k", .options = {{"entries", 7}}}}},
       "exchange.levels.codec.entries: needs topology all_reduce, where no range is cut into parts: topology "
       "is "
       "servers"},
      {{{.codec = {.name = "count_sketch", .options = {{"reuse", 4}}}}},
       "exchange.levels.codec.reuse: of more than 1 needs candidates 1, since every exact value that travels "
       "counts, and a density that leaves as many entries for each step: reuse is 4, candidates 4, density "
       "0.01"},
      {{{.topology = "servers", .codec = {.name = "count_sketch", .options = {{"column_count", 64}}}}},
       "exchange.levels.codec.column_count: needs topology all_reduce, where no range is cut into parts: "
       "topology "
       "is servers"},
      {{{.topology = "servers",
         .codec = {.name = "count_sketch", .options = {{"reuse", 2}, {"candidates", 1}}}}},
       "exchange.levels.codec.reuse: must be 1 at servers, whose answers are of one step: it is 2"},
      {{{.topology = "sharded", .codec = {.name = "adaptive_threshold"}}},
       "exchange.levels.codec.name: adaptive_threshold needs topology all_reduce, since its threshold "
       "follows "
       "from all members' wires: topology is sharded"},
      {{{.codec = {.name = "adaptive_threshold", .options = {{"least", 0.02}}}}},
       "exchange.levels.codec.least: must be below density, where the threshold rises: it is 0.02, and "
       "density "
       "is 0.01"},
      {{{.topology = "gossip", .graph = "push", .rule = "average", .inner_state = Average}},
       "exchange.levels: a graph whose members hear from more or fewer than they send to needs inner_state "
       "keep or reset, since weights are kept for what replicas hand in alone: graph is push, inner_state is "
       "average",
       3},
      {{{.rule = "elastic", .mixing = 0.5}},
       "exchange.levels: rule elastic needs delay 0 and mixing 0, since both sides move by one difference: "
       "delay "
       "is 0, mixing is 0.5"},
      {{{.topology = "servers", .rule = "elastic", .late = "moved"}},
       "exchange.levels: rule elastic needs late as_others, since both sides move by one difference: late is "
       "moved"},
      {{{.topology = "servers", .rule = "block_nesterov", .period = 3, .late = "moved"}},
       "exchange.levels: rule block_nesterov needs late as_others and workers that keep step, since replicas "
       "must set out from where the momentum led the last block: late is moved, workers are synchronous"},
      {{{.topology = "servers",
         .rule = "block_nesterov",
         .period = 3,
         .options = {{"staleness", -1}, {"apply", 1}}}},
       "exchange.levels: rule block_nesterov needs late as_others and workers that keep step, since replicas "
       "must set out from where the momentum led the last block: late is as_others, workers are "
       "asynchronous"},
      {{{.rule = "elastic", .codec = {.name = "top_k"}}},
       "exchange.levels: rule elastic needs codec none, since replicas keep a share of what they did not "
       "send: "
       "codec is top_k"},
      {{{.rule = "accumulated", .period = 5, .warmup_steps = 3}},
       "exchange.levels: rule accumulated needs warmup_steps 0, since it divides by the period: warmup_steps "
       "is 3"},
      {{{.topology = "servers", .rule = "slowmo", .period = 4}},
       "exchange.levels: rule slowmo needs a topology without servers: gamma is the learning rate of the "
       "round's last step, and a server knows no steps of replicas: topology is servers"},
      {{{.topology = "gossip", .rule = "elastic"}},
       "exchange.levels: topology gossip needs rule average, since nobody owns what a rule would keep: rule "
       "is "
       "elastic"},
      {{{.topology = "adasum", .rule = "average"}},
       "exchange.levels: topology adasum needs rule sum, since it combines gradients: rule is average"},
      {{{.topology = "adasum"}},
       "exchange.levels: topology adasum needs a power of two of ranks that meet: 3 do at data",
       3},
      {{{.group = Node}, {.group = Across, .topology = "pairs", .rule = "average"}},
       "exchange.levels: topology pairs must be the only level: there are 2 levels"},
      {{{.topology = "pairs"}},
       "exchange.levels: topology pairs needs rule average, delay 0, mixing 0 and inner_state keep or reset, "
       "since "
       "both sides of a pair become its mean at once: rule is sum, delay is 0, mixing is 0, inner_state is "
       "keep"},
      {{{.topology = "significant", .rule = "average", .inner_state = Average}},
       "exchange.levels: topology significant needs rule average, delay 0, mixing 0 and inner_state keep or "
       "reset, "
       "since what stays of a replica's way is its own alone: rule is average, delay is 0, mixing is 0, "
       "inner_state is average"},
      {{{.topology = "servers", .rule = "block", .mixing = 0.5, .late = "moved"}},
       "exchange.levels: late moved needs delay 0 and mixing 0, since replicas set out from what was served: "
       "delay "
       "is 0, mixing is 0.5"},
      {{{.topology = "servers", .options = {{"quorum", 2}}}},
       "exchange.levels: apply must be the same as quorum where that is above 0: quorum is 2, apply is 0"},
      {{{.topology = "servers", .options = {{"staleness", 2}}}},
       "exchange.levels: a staleness above 0 needs apply 1, or clocks wait for each other as with 0: apply "
       "is "
       "0"},
      {{{.options = {{"staleness", 2}}}},
       "exchange.levels.staleness: topology all_reduce with rule sum has no such key"},
      {{{.topology = "servers", .consistency = "sampled", .options = {{"quorum", 2}}}},
       "exchange.levels.quorum: topology servers with rule sum and consistency sampled has no such key"},
      {{{.options = {{"significance", 0.5}}}},
       "exchange.levels.significance: topology all_reduce with rule sum has no such key"},
      {{{.topology = "servers", .late = "less", .options = {{"compensation", 1}}}},
       "exchange.levels.compensation: topology servers with rule sum and consistency clocks has no such key"},
  };
}

struct Misruled {
  plan::OptimiserPlan optimiser;
  plan::RatePlan rate;
  plan::LevelPlan level;
  const char* message;
};

std::vector<Misruled> misruled_rows() {
  auto adamw = [](int freeze_steps) {
    return plan::OptimiserPlan{.rule = "adamw", .options = {{"freeze_steps", freeze_steps}}};
  };
  return {
      {adamw(0),
       {},
       {.codec = {.name = "int8"}},
       "optimiser.rule: adamw divides by a variance that a biased codec falsifies; let it stay after "
       "freeze_steps, and the codec begin no earlier, with as many dense_steps; or use sgd or momentum, or "
       "say force: true: codec is int8, freeze_steps is 0, dense_steps is 0"},
      {adamw(9),
       {},
       {.topology = "sharded"},
       "optimiser.freeze_steps: needs levels of topology all_reduce with rule sum, clip_norm 0, "
       "exchange.delay 0 and exchange.gradients whole, since what travels are first moments that all have "
       "alike: topology is sharded, rule is sum"},
      {adamw(5),
       {},
       {.factors = plan::FactorUse::Auto},
       "optimiser.freeze_steps: must be 0 where gradients travel as factors, since what travels after these "
       "are first moments: it is 5"},
      {{},
       {.schedule = "step", .options = {{"step_samples", "[2, 2]"}}},
       {},
       "learning_rate.step_samples: must be given for schedule step, in ascending order: it is [2, 2]"},
      {{},
       {.schedule = "step"},
       {},
       "learning_rate.step_samples: must be given for schedule step, in "
       "ascending order: it is []"},
      {{},
       {.options = {{"step_samples", "[2]"}}},
       {},
       "learning_rate.step_samples: schedule cosine has no such key"},
      {{.options = {{"beta1", 0.5}}}, {}, {}, "optimiser.beta1: rule momentum has no such key"},
  };
}

/// Sentences of rows' rules that `found` has not.
std::vector<std::string> rules_without(const std::string& found, const plan::Catalogue& known) {
  std::vector<std::string> missing;
  auto look = [&](const auto& rows) {
    for (const auto& row : rows)
      for (const auto& rule : row.rules)
        if (found.find(rule.sentence) == std::string::npos)
          missing.push_back(fmt::format("{}: {}", row.name, rule.sentence));
  };
  look(known.rules);
  look(known.schedules);
  look(known.topologies);
  look(known.outer_rules);
  look(known.consistencies);
  look(known.lates);
  look(known.codecs);
  return missing;
}

TEST(RowRules, FindWhatBreaksThem) {
  const plan::Catalogue known = full_catalogue();
  std::string all;
  for (const Misplaced& misplaced : misplaced_rows()) {
    plan::Plan plan;
    plan.batch.global = 8;
    plan.length.steps = 1;
    plan.optimiser.rule = "sgd";
    plan.exchange.levels = misplaced.levels;
    if (misplaced.stages_by) {
      plan.mesh.pipeline = plan.batch.micro_batches = 2;
      plan.pipeline.schedule = misplaced.stages_by;
    }
    const auto problems = plan::check_plan(plan, misplaced.ranks, known);
    std::string found;
    for (const plan::Problem& problem : problems) found += problem.key + ": " + problem.sentence + "\n";
    EXPECT_EQ(found, misplaced.message + std::string("\n"));
    all += found;
  }
  for (const Misruled& misruled : misruled_rows()) {
    plan::Plan plan;
    plan.batch.global = 8;
    plan.length.steps = 1;
    plan.optimiser = misruled.optimiser;
    plan.learning_rate = misruled.rate;
    plan.exchange.levels = {misruled.level};
    std::string found;
    for (const plan::Problem& problem : plan::check_plan(plan, 2, known))
      found += problem.key + ": " + problem.sentence + "\n";
    EXPECT_EQ(found, misruled.message + std::string("\n"));
    all += found;
  }
  EXPECT_THAT(rules_without(all, known), testing::IsEmpty()) << "a row's rule has no test";
}

/// Another row's keys go with it, those of the same name too where it does not allow what they say.
TEST(RowOptions, AnOverrideThatNamesAnotherRowNeedsNoOthers) {
  const plan::Catalogue known = catalogue();
  const auto codec_after = [&](const std::string& codec, const std::string& name) {
    return plan::parse_plan("exchange: {levels: [{codec: {" + codec + "}}]}", "r",
                            {"exchange.levels.0.codec.name=" + name}, &known)
        .exchange.levels[0]
        .codec.options.given();
  };
  EXPECT_EQ(codec_after("name: count_sketch, table: bfloat16, density: 0.5", "split_sketch").at("table"),
            "int8");
  EXPECT_EQ(codec_after("name: qsgd, bits: 2", "split_sketch").at("bits"), "4");
  EXPECT_EQ(codec_after("name: qsgd, bits: 2", "bf16").size(), 0u);
}

TEST(RowOptions, OfConsistencyAreThoseOfTheRuleThatServersFollow) {
  const plan::Catalogue known = catalogue();
  const plan::Plan ssp =
      plan::parse_plan("exchange: {levels: [{topology: servers, staleness: 2, apply: 1}]}", "r", {}, &known);
  EXPECT_EQ(known.bounds_of(ssp.exchange.levels[0]).lead, 2);
  EXPECT_EQ(plan::axes_of(ssp, known).scheduling, "staleness 2");
  const plan::Plan other = plan::override_plan(
      ssp, {"exchange.levels.0.consistency=sampled", "exchange.levels.0.sample=2"}, &known);
  EXPECT_EQ(plan::axes_of(other, known).scheduling, "staleness 2 to 2 sampled");
  EXPECT_FALSE(other.exchange.levels[0].options.given().contains("apply"));
  EXPECT_EQ(known.bounds_of(other.exchange.levels[0]).scheduling(), plan::Scheduling::Free);
  try {
    plan::parse_plan("exchange: {levels: [{topology: servers, sample: 2, staleness: -2}]}", "r", {}, &known);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "r:1: exchange.levels[0].sample is a key of sampled; topology servers with rule sum and "
        "consistency clocks has staleness, quorum, apply\n"
        "r:1: exchange.levels[0].staleness must be a whole number, at least -1 and at most 1000000000, "
        "but is \"-2\"");
  }
}

/// Plans of before rows had keys of their own have all keys of all rows.
TEST(RowOptions, OfAnotherRowAreRefusedUnlessTheySayItsDefault) {
  const plan::Catalogue known = catalogue();
  EXPECT_EQ(plan::parse_plan("optimiser: {rule: sgd, beta1: 0.9, freeze_steps: 0}\n"
                             "learning_rate: {schedule: constant, step_samples: [], final_fraction: 0}",
                             "r", {}, &known)
                .optimiser.options,
            plan::Options{});
  try {
    plan::parse_plan("optimiser: {rule: sgd, beta2: 0.5}\nlearning_rate: {schedule: step, step_samples: 7}",
                     "r", {}, &known);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "r:1: optimiser.beta2 is a key of adamw; rule sgd has none of its own\n"
        "r:2: learning_rate.step_samples must be a list; each a whole number, at least 1, but is \"7\"");
  }
  const plan::Plan step =
      plan::parse_plan("learning_rate: {schedule: step, step_samples: [5, 10]}", "r", {}, &known);
  EXPECT_EQ(step.learning_rate.options.given().at("step_samples"), "[5, 10]");
  EXPECT_EQ(plan::parse_plan(plan::write_plan(step), "r", {}, &known), step);
  EXPECT_NE(plan::write_plan(step).find("step_samples: [5, 10]"), std::string::npos);
  // Whatever a text looks like, it is read as it was written.
  for (const char* text : {"[5,10]", "[a: b]", "[~]", "[conv", "[a]b", "[\"a, b\", c]", "*x"}) {
    plan::Plan odd;
    odd.optimiser.options.set("own", text);
    EXPECT_EQ(plan::parse_plan(plan::write_plan(odd), "r"), odd) << text;
  }
}

TEST(RowOptions, HaveDefaultsThatTheyAllow) {
  auto check = [](const auto& rows) {
    for (const auto& row : rows)
      for (const plan::OptionKey& key : row.options)
        EXPECT_EQ(key.canonical(key.standard), key.standard) << row.name << " " << key.key;
  };
  const plan::Catalogue known = catalogue();
  check(known.rules);
  check(known.schedules);
  check(known.topologies);
  check(known.outer_rules);
  check(known.consistencies);
  check(known.lates);
  check(known.codecs);
}

// What help and docs say of a row.
TEST(Rows, HaveASentence) {
  auto check = [](const auto& rows) {
    for (const auto& row : rows) EXPECT_FALSE(row.sentence.empty()) << row.name;
  };
  const plan::Catalogue known = catalogue();
  check(known.rules);
  check(known.schedules);
  check(known.topologies);
  check(known.outer_rules);
  check(known.consistencies);
  check(known.lates);
  check(known.codecs);
}

}  // namespace
}  // namespace taxon::exchange
