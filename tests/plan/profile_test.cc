#include "plan/profile.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "plan/plan.h"
#include "plan/sample_plan.h"

namespace taxon::plan {
namespace {

using testing::HasSubstr;

constexpr const char* kSoundProfile = R"(model: cnn
source: one core
batch: 32
compute: float32
threads: 1
input: [1, 28, 28]
classes: 10
update: 2 ms
read: 30us
buffers: [64, 1]
completion: [fc.bias, fc.weight, conv.weight]
segments:
  - name: conv
    forward: 1 ms
    backward: 2ms
    parameters:
      - {name: conv.weight, shape: [32, 1, 3, 3]}
      - {name: conv.scale, shape: [32], trainable: false}
  - name: fc
    forward: 3 ms
    backward: 4 ms
    parameters:
      - {name: fc.weight, shape: [10, 128], gradient_from: 500us, gradient: 4 ms}
      - {name: fc.bias, shape: [10], gradient: 100 us}
)";

std::string profile_problems(const std::string& yaml) {
  try {
    parse_profile(yaml, "p.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return "";
}

TEST(Profile, IsReadBackAsWritten) {
  const ModelProfile profile = parse_profile(kSoundProfile, "p.yaml");
  EXPECT_EQ(parameter_count(profile), 32 * 9 + 32 + 1280 + 10);
  EXPECT_TRUE(is_measured(profile));
  EXPECT_DOUBLE_EQ(profile.segments[1].parameters[0].gradient_from, 500e-6);
  EXPECT_EQ(parse_profile(write_profile(profile), "again"), profile);
}

TEST(Profile, ListsEverythingThatIsWrong) {
  const std::string problems = profile_problems(R"(modell: cnn
input: [0]
completion: [a, b, b]
segments:
  - {name: one, forward: -1}
  - {name: one, forward: 1 ms, forward_flops: 5, parameters: [{name: a, shape: [0]}, {name: a, shape: [2]}]}
  - {name: two, parameters: [{name: c, shape: [2], gradient_from: 2, gradient: 1}]}
)");
  for (const char* expected :
       {"modell is no key; did you mean model?", "input[0] must be", "segments[0].forward must be",
        "model is missing", "batch is missing", "two segments are called \"one\"",
        "both times and operations", "shape is [0]", "two parameters are called \"a\"",
        "gradient_from (2 s) is after", "after the end of the backward pass", "completion names \"b\"",
        "completion names \"b\" twice", "completion lacks the trained parameter \"c\""})
    EXPECT_THAT(problems, HasSubstr(expected));
}

TEST(Profile, WithoutTimesMustCountEverySegmentThatIsTrained) {
  EXPECT_THAT(profile_problems("model: m\ninput: [1]\nbatch: 3\nsegments:\n"
                               "  - {name: one, parameters: [{name: a, shape: [2], gradient: 1}]}\n"),
              testing::AllOf(HasSubstr("segments[0] (\"one\") has parameters and no cost"),
                             HasSubstr("batch means nothing"), HasSubstr("gradient is a time")));
}

TEST(Profile, OfAnotherModelBatchOrTypeIsTold) {
  const ModelProfile profile = parse_profile(kSoundProfile, "p.yaml");
  Plan plan = test::legal_plan();
  plan.model.name = "cnn";
  plan.model.frozen = {"conv.scale"};
  plan.batch = {.global = 60, .micro_batches = 1};
  EXPECT_THAT(profile_mismatches(profile, plan, 2), testing::ElementsAre(HasSubstr("32 sample(s)")));
  plan.batch = {.per_worker = 64, .micro_batches = 2};
  EXPECT_THAT(profile_mismatches(profile, plan, 3), testing::IsEmpty());
  plan.model = {.name = "mlp", .frozen = {"fc.*", "nothing"}};
  plan.precision.compute = DType::BFloat16;
  EXPECT_THAT(profile_mismatches(profile, plan, 3),
              testing::ElementsAre(HasSubstr("of model \"cnn\""), HasSubstr("named nothing"),
                                   HasSubstr("conv.scale was frozen"), HasSubstr("fc.weight was trained"),
                                   HasSubstr("fc.bias was trained"), HasSubstr("float32")));
}

TEST(Profile, OfOtherPartsOfLayersIsTold) {
  ModelProfile profile = parse_profile(kSoundProfile, "p.yaml");
  Plan plan = test::legal_plan();
  plan.model = {.name = "cnn", .frozen = {"conv.scale"}};
  plan.batch = {.global = 64, .micro_batches = 2};
  plan.mesh.tensor = 2;
  EXPECT_THAT(profile_mismatches(profile, plan, 2), testing::ElementsAre(HasSubstr("mesh.tensor: 1")));
  profile.tensor = 2;
  EXPECT_THAT(profile_mismatches(profile, plan, 2), testing::IsEmpty());
}

TEST(Profile, OfOperationsFitsEveryBatch) {
  ModelProfile profile = parse_profile(kSoundProfile, "p.yaml");
  for (SegmentProfile& segment : profile.segments) {
    segment.forward = segment.backward = 0;
    segment.forward_flops = 1e6;
    for (ParameterProfile& parameter : segment.parameters) parameter.gradient_from = parameter.gradient = 0;
  }
  profile.batch = 0;
  EXPECT_THAT(profile_problems(profile), testing::IsEmpty());
  Plan plan = test::legal_plan();
  EXPECT_THAT(profile_mismatches(profile, plan, 7), testing::IsEmpty());
}

TEST(Profile, FingerprintNamesTheModelAndNotItsCosts) {
  ModelProfile one = parse_profile(kSoundProfile, "p.yaml"), other = one;
  other.segments[0].forward = 5;
  EXPECT_EQ(fingerprint(one), fingerprint(other));
  other.segments[0].parameters[0].shape[0] = 33;
  EXPECT_NE(fingerprint(one), fingerprint(other));
}

TEST(Profile, BundledOnesAreSoundAndHaveThePublishedSizes) {
  const std::filesystem::path folder = std::filesystem::path(TAXON_SOURCE_DIR) / "profiles";
  EXPECT_EQ(parameter_count(read_profile(folder / "vgg_a.yaml")), 132'863'336);
  EXPECT_EQ(parameter_count(read_profile(folder / "resnet50.yaml")), 25'557'032);
  EXPECT_EQ(parameter_count(read_profile(folder / "vgg16_cifar.yaml")), 14'728'266);
  EXPECT_EQ(parameter_count(read_profile(folder / "alexnet.yaml")), 61'100'840);
}

TEST(Profile, RecipesForSimulationFitTheirProfiles) {
  const std::filesystem::path source = TAXON_SOURCE_DIR;
  for (auto [recipe, profile] : {std::pair{"imagenet-vgg-a", "vgg_a"}, {"imagenet-resnet50", "resnet50"}}) {
    const Plan plan = read_plan(source / "recipes/simulated" / (std::string(recipe) + ".yaml"));
    EXPECT_EQ(plan.name, recipe);
    Catalogue known = test::catalogue();
    known.models.push_back({.name = profile});
    EXPECT_NO_THROW(require_legal(check_plan(plan, 128, known)));
    const ModelProfile model = read_profile(source / "profiles" / (std::string(profile) + ".yaml"));
    EXPECT_THAT(profile_mismatches(model, plan, 128), testing::IsEmpty());
  }
}

}  // namespace
}  // namespace taxon::plan
