#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "plan/catalogue.h"
#include "plan/fields.h"
#include "plan/plan.h"
#include "plan/sample_plan.h"

namespace taxon::plan {
namespace {

using testing::HasSubstr;

std::string problems_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    const Catalogue known = test::catalogue();
    parse_plan(yaml, "r.yaml", overrides, &known);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return "";
}

TEST(Yaml, NothingGivesTheDefaults) {
  EXPECT_EQ(parse_plan("", "r.yaml"), Plan{});
  EXPECT_EQ(parse_plan("model:\n# nothing\n", "r.yaml"), Plan{});
}

TEST(Yaml, ReadsEveryKindOfValue) {
  Plan p = parse_plan(R"(
name: first
seed: 18446744073709551615
model: {frozen: [conv1.weight, "fc*"]}
batch: {per_worker: 64}
precision: {compute: bfloat16}
optimiser: {decay_all: true, epsilon: 1e-6}
learning_rate: {step_samples: [100, 200]}
exchange:
  bucket_bytes: 4KiB
  levels:
    - {collective: ring}
)",
                      "r.yaml");
  EXPECT_EQ(p.name, "first");
  EXPECT_EQ(p.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(p.model.frozen, (std::vector<std::string>{"conv1.weight", "fc*"}));
  EXPECT_EQ(p.batch.per_worker, 64);
  EXPECT_EQ(p.precision.compute, DType::BFloat16);
  EXPECT_TRUE(p.optimiser.decay_all);
  EXPECT_EQ(p.optimiser.options, (Options{{"epsilon", "1e-6"}}));
  EXPECT_EQ(p.learning_rate.options, (Options{{"step_samples", "[100, 200]"}}));
  EXPECT_EQ(p.exchange.bucket_bytes, 4096);
  ASSERT_EQ(p.exchange.levels.size(), 1u);
  EXPECT_EQ(p.exchange.levels[0].collective, "ring");
  EXPECT_EQ(p.exchange.levels[0].topology, "all_reduce");
}

TEST(Yaml, AWordIsTheNameOfACodec) {
  auto codec_of = [](const std::string& yaml, const std::vector<std::string>& overrides = {}) {
    return parse_plan("exchange: {levels: [" + yaml + "]}", "r.yaml", overrides).exchange.levels.at(0).codec;
  };
  EXPECT_EQ(codec_of("{codec: int8}"), codec_of("{codec: {name: int8}}"));
  EXPECT_EQ(codec_of("{codec: int8}").name, "int8");
  EXPECT_EQ(codec_of("{codec: auto}"), codec_of("{codec: {name: auto}}"));
  EXPECT_EQ(codec_of("{codec: none}"), CodecPlan{});
  EXPECT_EQ(codec_of("{codec: }"), CodecPlan{});
  const CodecPlan over = codec_of("{codec: {name: top_k, density: 0.25}}", {"exchange.levels.0.codec=auto"});
  EXPECT_EQ(over.name, "auto");
  EXPECT_EQ(codec_of("", {"exchange.levels=[{codec: sign}]"}).name, "sign");
  const Plan once = parse_plan("exchange: {levels: [{codec: auto}]}", "r.yaml");
  EXPECT_EQ(parse_plan(write_plan(once), "r.yaml"), once);
  EXPECT_EQ(problems_of("exchange:\n  levels:\n    - {codec: [int8]}"),
            "r.yaml:3: exchange.levels[0].codec must be a word or a section of keys, but is a list");
  EXPECT_EQ(problems_of("exchange:\n  levels: int8"),
            "r.yaml:2: exchange.levels must be a list, but is \"int8\"");
}

TEST(Yaml, BytesMayHaveAUnit) {
  auto bytes = [](const std::string& text) {
    return parse_plan("exchange: {bucket_bytes: " + text + "}", "r.yaml").exchange.bucket_bytes;
  };
  EXPECT_EQ(bytes("17"), 17);
  EXPECT_EQ(bytes("4MiB"), 4 << 20);
  EXPECT_EQ(bytes("2 GiB"), 2LL << 30);
  EXPECT_EQ(bytes("3MB"), 3000000);
  EXPECT_EQ(bytes("5 B"), 5);
  EXPECT_THAT(problems_of("exchange: {bucket_bytes: 4MiBs}"), HasSubstr("number of bytes"));
  EXPECT_THAT(problems_of("exchange: {bucket_bytes: 9999999999999999999TiB}"), HasSubstr("number of bytes"));
  EXPECT_THAT(problems_of("batch: {global: 4MiB}"), HasSubstr("batch.global must be a whole number"));
}

TEST(Yaml, AllProblemsAreListedAtOnceByLine) {
  EXPECT_EQ(
      problems_of("evaluation:\n"
                  "  bach: 1\n"
                  "  every_epochs: -1\n"
                  "batch: 64\n"
                  "optimizer: {rule: sgd}\n"
                  "report: {trace: maybe}\n"
                  "seed: -1\n"
                  "seed: 2\n"
                  "model: {frozen: fc}\n"
                  "precision: {compute: int32}\n"),
      "r.yaml:2: evaluation.bach is no key; did you mean evaluation.batch?\n"
      "r.yaml:3: evaluation.every_epochs must be a number, at least 0 and at most 1000000, but is \"-1\"\n"
      "r.yaml:4: batch must be a section of keys, but is \"64\"\n"
      "r.yaml:5: optimizer is no key; did you mean optimiser?\n"
      "r.yaml:6: report.trace must be true or false, but is \"maybe\"\n"
      "r.yaml:7: seed must be a whole number, at least 0, but is \"-1\"\n"
      "r.yaml:8: seed is given twice\n"
      "r.yaml:9: model.frozen must be a list, but is \"fc\"\n"
      "r.yaml:10: precision.compute must be one of float32, float64, bfloat16, but is \"int32\"");
}

TEST(Yaml, ProblemsOfFileAndOverridesJoin) {
  EXPECT_EQ(
      problems_of("sed: 1\n", {"length.epochs=many", "evaluation.bach=1", "nonsense"}),
      "r.yaml:1: sed is no key; did you mean seed?\n"
      "--set length.epochs=many: length.epochs must be a number, at least 0 and at most 1000000, but is "
      "\"many\"\n"
      "--set evaluation.bach=1: evaluation.bach is no key; did you mean evaluation.batch?\n"
      "--set nonsense: must read key.path=value");
}

TEST(Yaml, KeysInTheWrongSectionAreFound) {
  EXPECT_THAT(problems_of("warmup_samples: 1"), HasSubstr("did you mean learning_rate.warmup_samples?"));
  EXPECT_THAT(problems_of("data: {batch: {global: 1}}"),
              HasSubstr("data.batch is no key; did you mean batch"));
  EXPECT_THAT(problems_of("exchange: {levels: [{grup: data}]}"),
              HasSubstr("exchange.levels[0].grup is no key; did you mean exchange.levels.group?"));
  EXPECT_EQ(problems_of("xyzzy_plugh: 1"), "r.yaml:1: xyzzy_plugh is no key");
}

TEST(Yaml, NumbersMustBeWholeFiniteAndInRange) {
  for (const char* bad : {"1.5", "1e3", "0x10", "", "~", "[1]", "99999999999999999999", "-1", "12 "})
    EXPECT_THAT(problems_of(std::string("batch: {global: '") + bad + "'}"), HasSubstr("batch.global must be"))
        << bad;
  for (const char* bad : {".inf", "inf", "nan", "1,5", "-0.1", "1e999"})
    EXPECT_THAT(problems_of(std::string("learning_rate: {base: ") + bad + "}"), HasSubstr("learning_rate"))
        << bad;
  EXPECT_THAT(problems_of("optimiser: {momentum: 1}"), HasSubstr("at least 0 and below 1"));
  EXPECT_THAT(problems_of("data: {deviation: 0}"), HasSubstr("above 0"));
  EXPECT_THAT(problems_of("data: {prefetch: 2147483648}"), HasSubstr("data.prefetch"));
}

TEST(Yaml, WhatIsNoRecipeIsSaidSo) {
  EXPECT_THAT(problems_of("a: [1"), HasSubstr("is no YAML"));
  EXPECT_THAT(problems_of("just text"), HasSubstr("r.yaml:1: a recipe is a list of"));
  EXPECT_THAT(problems_of("- 1"), HasSubstr("a recipe is a list of"));
  EXPECT_THAT(problems_of("seed: 1\n---\nseed: 2"), HasSubstr("2 YAML documents"));
  EXPECT_THAT(problems_of("", {"seed=[1"}), HasSubstr("--set seed=[1: the value is no YAML"));
  EXPECT_THAT(problems_of("a: &x [*x]"), HasSubstr("a is no key"));
}

TEST(Yaml, UnreadableFiles) {
  EXPECT_THROW(
      {
        try {
          read_plan("/no/such/recipe.yaml");
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "/no/such/recipe.yaml: cannot be read: No such file or directory");
          throw;
        }
      },
      Error);
  EXPECT_THROW(read_plan("/"), Error);
}

TEST(Overrides, ReplaceWhatTheFileSays) {
  Plan p = parse_plan("seed: 1\nlearning_rate: {base: 0.1}", "r.yaml",
                      {"seed=7", "learning_rate.step_samples=[10, 20]", "name=a=b",
                       "data.path=", "exchange.levels=[{collective: tree}]", "seed=8"});
  EXPECT_EQ(p.seed, 8u);
  EXPECT_EQ(p.learning_rate.base, 0.1);
  EXPECT_EQ(p.learning_rate.options, (Options{{"step_samples", "[10, 20]"}}));
  EXPECT_EQ(p.name, "a=b");
  EXPECT_EQ(p.data.path, "");
  ASSERT_EQ(p.exchange.levels.size(), 1u);
  EXPECT_EQ(p.exchange.levels[0].collective, "tree");
}

TEST(Overrides, NameAnElementByItsIndex) {
  Plan p = parse_plan("", "r.yaml", {"exchange.levels.0.collective=ring"});
  EXPECT_EQ(p.exchange.levels[0].collective, "ring");
  EXPECT_EQ(p.exchange.levels[0].topology, "all_reduce");
  EXPECT_THAT(problems_of("", {"exchange.levels.1.collective=ring"}),
              HasSubstr("exchange.levels has 1 element(s), counted from 0, and none called 1"));
  EXPECT_THAT(problems_of("", {"exchange.levels.x.collective=ring"}), HasSubstr("none called x"));
  EXPECT_THAT(problems_of("exchange: {levels: {0: {collective: ring}}}"), HasSubstr("must be a list"));
}

TEST(Overrides, OneOfSeveralKeysTakesThePlaceOfTheOthers) {
  Plan p = parse_plan("length: {epochs: 3}\nbatch: {global: 128, micro_batches: 4}", "r.yaml",
                      {"length.steps=50", "batch.per_worker=32"});
  EXPECT_EQ(p.length, (LengthPlan{.steps = 50}));
  EXPECT_EQ(p.batch, (BatchPlan{.per_worker = 32, .micro_batches = 4}));
  // Within one source both stay, so that the legality table can say so.
  p = parse_plan("length: {epochs: 3, steps: 2}", "r.yaml");
  EXPECT_EQ(p.length, (LengthPlan{.epochs = 3, .steps = 2}));
  p = parse_plan("length: {samples: 9}", "r.yaml", {"length.epochs=3", "length.steps=2"});
  EXPECT_EQ(p.length, (LengthPlan{.epochs = 3, .steps = 2}));
}

TEST(Overrides, TorchScriptTakesThePlaceOfTheDefaultModel) {
  Plan p = parse_plan("model: {torchscript: m.pt}", "r.yaml");
  EXPECT_EQ(p.model.name, "");
  EXPECT_EQ(p.model.torchscript, "m.pt");
  p = parse_plan("model: {torchscript: m.pt}", "r.yaml", {"model.name=mlp"});
  EXPECT_EQ(p.model.name, "mlp");
  EXPECT_EQ(p.model.torchscript, "");
  p = parse_plan("model: {torchscript: m.pt, name: mlp}", "r.yaml");
  EXPECT_EQ(p.model.name, "mlp");
  EXPECT_EQ(p.model.torchscript, "m.pt");
}

// Fills every field with something random that its bounds allow.
class Randomiser {
 public:
  explicit Randomiser(std::uint64_t seed) : rng_(seed, "random plan") {}
  template <class T>
  void fill(T& section) {
    visit_fields(section, [&](const Field& field, auto& member) { value(field, member); });
  }

 private:
  template <class T>
  void value(const Field& field, T& member) {
    if constexpr (Section<T>)
      fill(member);
    else if constexpr (std::same_as<T, bool>)
      member = rng_.below(2) == 1;
    else if constexpr (Choice<T>)
      member = static_cast<T>(rng_.below(std::size(Words<T>::all)));
    else if constexpr (std::same_as<T, DType>)
      member = rng_.below(2) == 1 ? DType::Float32 : DType::Float64;
    else if constexpr (std::same_as<T, double>)
      member = std::isfinite(field.max) ? field.max * rng_.uniform() * 0.999 + 1e-9
                                        : std::exp(90 * rng_.uniform());
    else if constexpr (std::integral<T>)
      member = static_cast<T>(std::isfinite(field.max) ? 1 + rng_.below(static_cast<std::uint64_t>(field.max))
                                                       : rng_() >> (std::same_as<T, std::uint64_t> ? 0 : 34));
    else if constexpr (std::same_as<T, std::string>)
      member = field.choices.empty() ? text() : std::string(field.choices.substr(0, field.choices.find(' ')));
    else {
      member.resize(rng_.below(4));
      for (auto& element : member) value(field, element);
    }
  }
  std::string text() {
    static const std::vector<std::string> kNasty = {
        "",     "~",   "null", "true", "12", "1e3", " padded ", "a: b", "# no comment", "- item",
        "[x]",  "{y}", "'q'",  "\"",   "\\", "*a",  "&a",       "!tag", "line\nbreak",  "tab\t",
        "grün", "@",   "a #b", "%x",   "|",  ">",   "---",      "x: [1"};
    return kNasty[rng_.below(kNasty.size())];
  }
  Rng rng_;
};

TEST(Yaml, EveryPlanSurvivesWritingAndReading) {
  EXPECT_EQ(parse_plan(write_plan(Plan{}), "w"), Plan{});
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Plan plan;
    Randomiser(seed).fill(plan);
    std::string text = write_plan(plan);
    Plan again;
    ASSERT_NO_THROW(again = parse_plan(text, "w")) << text;
    ASSERT_EQ(again, plan) << text;
    ASSERT_EQ(write_plan(again), text);
  }
}

class RowOptions : public testing::Test {
 protected:
  Plan plan_of(const std::string& codec, const std::vector<std::string>& overrides = {}) const {
    return parse_plan("exchange:\n  levels:\n    - codec: {" + codec + "}", "r.yaml", overrides, &known_);
  }
  CodecPlan read(const std::string& codec, const std::vector<std::string>& overrides = {}) const {
    return plan_of(codec, overrides).exchange.levels.at(0).codec;
  }
  std::string problems(const std::string& codec, const std::vector<std::string>& overrides = {}) const {
    try {
      read(codec, overrides);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  const Catalogue known_ = test::catalogue();
};

TEST_F(RowOptions, AreReadForTheRowThatIsNamed) {
  const CodecPlan codec = read("name: top_k, density: 0.250, bits: 8");
  EXPECT_EQ(codec.options, (Options{{"density", 0.25}, {"bits", 8}}));
  EXPECT_EQ(codec.options.read<test::SampleOptions>().bits, 8);
  EXPECT_EQ(read("name: auto, of: top_k, bits: 8").options, (Options{{"density", 0.01}, {"bits", 8}}));
  EXPECT_EQ(read("answer: top_k, bits: 8").options, (Options{{"density", 0.01}, {"bits", 8}}));
  // Defaults that nobody gave are spelled out.
  EXPECT_EQ(read("name: top_k"), read("name: top_k, density: 0.01"));
  EXPECT_EQ(plan_hash(plan_of("name: top_k")), plan_hash(plan_of("name: top_k, bits: 4")));
}

TEST_F(RowOptions, OfOtherRowsAndOfNoneAreRefusedWithTheirLine) {
  EXPECT_EQ(problems("name: int8, density: 0.5"),
            "r.yaml:3: exchange.levels[0].codec.density is a key of top_k; codec int8 has none of its own");
  EXPECT_EQ(problems("density: 0.5"),
            "r.yaml:3: exchange.levels[0].codec.density is a key of top_k; codec none has none of its own");
  EXPECT_EQ(
      problems("name: top_k, densty: 0.5"),
      "r.yaml:3: exchange.levels[0].codec.densty is no key; did you mean exchange.levels.codec.density?");
  EXPECT_EQ(problems("name: top_k, bits: 3"),
            "r.yaml:3: exchange.levels[0].codec.bits must be one of 2, 4, 8, but is \"3\"");
  EXPECT_EQ(problems("name: top_k, bits: [3]"),
            "r.yaml:3: exchange.levels[0].codec.bits must be one of 2, 4, 8, but is \"[3]\"");
  EXPECT_EQ(problems("name: top_k, bits: {of: 3}"), "r.yaml:3: exchange.levels[0].codec.bits is no key");
  EXPECT_EQ(
      problems("name: top_k", {"exchange.levels.0.codec.bits=5"}),
      "--set exchange.levels.0.codec.bits=5: exchange.levels[0].codec.bits must be one of 2, 4, 8, but is "
      "\"5\"");
}

// Plans of earlier versions have the keys of all rows, at their defaults.
TEST_F(RowOptions, OfOtherRowsThatSayWhatTheyWouldSayAnywayArePassedOver) {
  EXPECT_EQ(read("name: int8, density: 0.01, bits: 4").options, Options{});
}

TEST_F(RowOptions, AnotherRowTakesTheOldOnesAway) {
  EXPECT_EQ(read("name: top_k, density: 0.5", {"exchange.levels.0.codec.name=int8"}),
            CodecPlan{.name = "int8"});
  EXPECT_EQ(read("name: top_k, density: 0.5", {"exchange.levels.0.codec.bits=8"}).options,
            (Options{{"density", 0.5}, {"bits", 8}}));
}

TEST_F(RowOptions, UnknownNamesAndMistypedKeysComeInOneList) {
  const std::string found = problems("name: topk, feedbak: none",
                                     {"optimiser.rule=sdg", "exchange.levels.0.topology=al_reduce", "sed=1"});
  for (const char* part :
       {"r.yaml:3: exchange.levels[0].codec.feedbak is no key", "--set sed=1: sed is no key",
        "must name an update rule: it is \"sdg\"; did you mean sgd?",
        "must name a topology: it is \"al_reduce\"; did you mean all_reduce?",
        "must be none or name a codec: it is \"topk\"; did you mean top_k?"})
    EXPECT_THAT(found, HasSubstr(part));
}

TEST_F(RowOptions, SurviveWritingAndReading) {
  Plan plan;
  plan.exchange.levels[0].codec = read("name: top_k, density: 0.1, bits: 2");
  EXPECT_EQ(parse_plan(write_plan(plan), "w", {}, &known_), plan);
  EXPECT_EQ(parse_plan(write_plan(plan), "w"), plan);
}

TEST_F(RowOptions, OfAScheduleOfStagesAreSpelledOut) {
  Catalogue known = test::catalogue();
  known.pipelines.push_back({.name = "wave", .options = option_keys<test::SampleOptions>()});
  const Plan given = parse_plan("pipeline: {schedule: wave, bits: 4, density: 0.01}", "r.yaml", {}, &known);
  EXPECT_EQ(parse_plan("pipeline: {schedule: wave}", "r.yaml", {}, &known), given);
}

TEST(DataKeys, AreThoseOfTheDataSetAndItsTransforms) {
  const Catalogue known = test::catalogue();
  auto read = [&](const std::string& data) {
    return parse_plan("data: {" + data + "}", "r.yaml", {}, &known);
  };
  auto problem = [&](const std::string& data) -> std::string {
    try {
      read(data);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  const Plan plan = read("dataset: table, bits: 2, transforms: [flip, {name: crop, density: 0.5}]");
  EXPECT_EQ(plan.data.options, (Options{{"bits", 2}, {"density", 0.01}}));
  ASSERT_EQ(plan.data.transforms.size(), 2u);
  EXPECT_EQ(plan.data.transforms[0].name, "flip");
  EXPECT_EQ(plan.data.transforms[1].options, (Options{{"bits", 4}, {"density", 0.5}}));
  EXPECT_EQ(parse_plan(write_plan(plan), "w", {}, &known), plan);
  EXPECT_EQ(problem("bits: 2"), "r.yaml:1: data.bits is a key of table; data set idx has none of its own");
  EXPECT_EQ(problem("dataset: table, bits: 3"), "r.yaml:1: data.bits must be one of 2, 4, 8, but is \"3\"");
  EXPECT_EQ(problem("pth: x"), "r.yaml:1: data.pth is no key; did you mean data.path?");
  EXPECT_EQ(problem("transforms: [{name: flip, bits: 2}]"),
            "r.yaml:1: data.transforms[0].bits is a key of crop; transform flip has none of its own");
  EXPECT_EQ(problem("transforms: [crp]"),
            "data.transforms: must name transforms: it is \"crp\"; did you mean crop?");
  EXPECT_EQ(problem("validation_share: 1"),
            "r.yaml:1: data.validation_share must be a number, at least 0 and below 1, but is \"1\"");
}

TEST(ModelKeys, OfFilesAreThoseOfNoOtherModel) {
  const Catalogue known = test::catalogue();
  auto read = [&](const std::string& model, const std::vector<std::string>& overrides = {}) -> std::string {
    try {
      const Plan plan = parse_plan("model: {" + model + "}", "r.yaml", overrides, &known);
      EXPECT_EQ(parse_plan(write_plan(plan), "w", {}, &known), plan);
      const auto& given = plan.model.options.given();
      return given.empty() ? "none" : given.at("returns");
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(read("name: my.pt2, returns: loss"), "loss");
  EXPECT_EQ(read("torchscript: my.pt, returns: loss"), "loss");
  EXPECT_EQ(read("name: my.pt2"), "logits");
  EXPECT_EQ(read("name: mlp"), "none");
  EXPECT_EQ(read("name: mlp, returns: loss"),
            "r.yaml:1: model.returns is a key of models of files; model mlp has none of its own");
  EXPECT_EQ(read("name: my.pt2, returns: los"),
            "r.yaml:1: model.returns must be one of logits, loss, but is \"los\"");
  EXPECT_EQ(read("name: my.pt2, returns: loss", {"model.name=mlp"}), "none");
}

TEST(PlanHash, CoversWhatRanksMustAgreeOn) {
  Plan plan;
  std::string hash = plan_hash(plan);
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(plan_hash(Plan{}), hash);
  plan.control.address = "h:1";
  plan.report.trace = true;
  plan.resolved.world_size = 3;
  EXPECT_EQ(plan_hash(plan), hash);
  plan.learning_rate.base = std::nextafter(plan.learning_rate.base, 1);
  EXPECT_NE(plan_hash(plan), hash);
  plan = {};
  plan.seed = 2;
  EXPECT_NE(plan_hash(plan), hash);
}

}  // namespace
}  // namespace taxon::plan
