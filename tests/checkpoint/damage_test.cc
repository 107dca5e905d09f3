// Whatever becomes of a checkpoint's files: it is loaded as it was saved, or refused in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/crashing_storage.h"
#include "checkpoint/forged.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/samples.h"

namespace taxon::checkpoint {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

bool are_equal(const Checkpoint& a, const Checkpoint& b) {
  auto packed = [](const Checkpoint& checkpoint) {
    std::vector<std::vector<std::byte>> files = {encode_safetensors(checkpoint.weights),
                                                 encode_safetensors(checkpoint.optimiser)};
    for (const auto& tensors : checkpoint.per_rank) files.push_back(encode_safetensors(tensors));
    return files;
  };
  return a.plan_yaml == b.plan_yaml && a.taxon_version == b.taxon_version && a.seed == b.seed &&
         a.world_size == b.world_size && a.steps == b.steps && a.samples == b.samples &&
         packed(a) == packed(b);
}

/// What load() makes of the storage: nothing if it refuses it in a line of its kind.
std::optional<Checkpoint> loaded(const CrashingStorage& storage, const std::string& path) {
  try {
    return load(storage, path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Checkpoint) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return std::nullopt;
  }
}

class Damage : public testing::TestWithParam<int> {
 protected:
  /// Calls `look` with the storage and the path of a whole checkpoint, one of whose files is damaged by
  /// chance, 400 times.
  void damage_files(std::string_view stream,
                    const std::function<void(CrashingStorage&, const std::string&)>& look) {
    CrashingStorage storage;
    const std::string path = save(storage, "out", sample_checkpoint(), 2);
    const auto whole = storage.files;
    Rng rng(static_cast<std::uint64_t>(GetParam()), stream);
    for (int trial = 0; trial < 400; ++trial) {
      storage.files = whole;
      auto file = storage.files.begin();
      std::advance(file, rng.below(storage.files.size()));
      const std::string how = damage(file->second, rng);
      SCOPED_TRACE(testing::Message() << file->first << ": " << how);
      look(storage, path);
    }
  }
};

TEST_P(Damage, OfAnyFileIsNoticed) {
  damage_files("damage", [](CrashingStorage& storage, const std::string& path) {
    const auto checkpoint = loaded(storage, path);
    EXPECT_TRUE(!checkpoint || are_equal(*checkpoint, sample_checkpoint()));
    // An older one would take its place.
    const auto found = [&]() -> std::optional<Found> {
      try {
        return load_newest(storage, "out", Weights::Any);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Checkpoint);
        return std::nullopt;
      }
    }();
    EXPECT_TRUE(!found || are_equal(found->checkpoint, sample_checkpoint()));
  });
}

TEST_P(Damage, ThatTheManifestVouchesForEndsInWords) {
  damage_files("forgery", [](CrashingStorage& storage, const std::string& path) {
    vouch_for_all(storage, path);
    loaded(storage, path);
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, Damage, testing::Range(0, 5));

TEST(ManifestNumbers, ThatNoRunHasAreRefused) {
  CrashingStorage storage;
  const std::string path = save(storage, "out", sample_checkpoint(), 2);
  const std::vector<std::byte> good = storage.files[path + "/manifest.json"];
  using Json = nlohmann::ordered_json;
  const auto forge_anew = [&](const std::function<void(Json&)>& change) {
    storage.files[path + "/manifest.json"] = good;
    forge(storage, path, change);
  };
  const auto refusal = [&](const std::function<void(Json&)>& change) {
    forge_anew(change);
    return checkpoint_error([&] { load(storage, path); });
  };
  const std::vector<Json> bad = {
      -5,     -1,   std::int64_t{1} << 62, std::uint64_t{1} << 63, 1e300, 1234.5, nullptr,
      "1234", true, Json::array()};
  for (const char* key : {"steps", "samples", "world_size"})
    for (const auto& value : bad)
      EXPECT_THAT(refusal([&](Json& json) { json[key] = value; }), HasSubstr("is damaged: "))
          << key << " " << value;
  for (std::int64_t ranks : {0, 1, 3, 1 << 20}) refusal([&](Json& json) { json["world_size"] = ranks; });
  for (const char* key : {"steps", "samples", "world_size", "seed", "files", "model_hash", "taxon_version"})
    refusal([&](Json& json) { json.erase(key); });
  forge_anew([](Json& json) { json.erase("finite"); });
  expect_equal(load(storage, path), sample_checkpoint());  // as older versions wrote it
}

TEST(ManifestNumbers, NeitherDepthNorSizeIsFollowed) {
  CrashingStorage storage;
  const std::string path = save(storage, "out", sample_checkpoint(), 2);
  std::string deep(1 << 20, '[');
  std::string text = R"({"format": "taxon checkpoint", "format_version": 1, "x": )" + deep;
  auto bytes = [](const std::string& text) {
    auto* first = reinterpret_cast<const std::byte*>(text.data());
    return std::vector<std::byte>(first, first + text.size());
  };
  storage.files[path + "/manifest.json"] = bytes(text);
  EXPECT_THAT(checkpoint_error([&] { load(storage, path); }), HasSubstr("nested too deeply"));
  storage.files[path + "/manifest.json"] = bytes(std::string(5 << 20, ' '));
  EXPECT_THAT(checkpoint_error([&] { load(storage, path); }), HasSubstr("are allowed"));
}

// Where every entry were looked for among all before it, this would not end within the test's time.
TEST(SafetensorsHeader, OfHundredsOfThousandsOfEntriesIsReadInLinearTime) {
  std::string header = "{";
  constexpr int kEntries = 500'000;
  for (int i = 0; i < kEntries; ++i)
    header +=
        (i ? ",\"t" : "\"t") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  header += "}";
  std::vector<std::byte> file(sizeof(std::uint64_t));
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof length);
  auto* first = reinterpret_cast<const std::byte*>(header.data());
  file.insert(file.end(), first, first + header.size());
  const auto tensors = decode_safetensors(ConstView(file.data(), file.size()), "many");
  EXPECT_THAT(tensors, SizeIs(kEntries));
  EXPECT_EQ(tensors[7].name, "t7");
  EXPECT_EQ(encode_safetensors(tensors).size() % 8, 0u);
}

Checkpoint not_finite(std::int64_t steps) {
  Checkpoint checkpoint = sample_checkpoint(steps);
  const float none = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(checkpoint.weights[1].bytes.data(), &none, sizeof none);
  return checkpoint;
}

TEST(FiniteWeights, TheLastCheckpointWithThemStays) {
  CrashingStorage storage;
  save(storage, "out", sample_checkpoint(1), 1);
  save(storage, "out", sample_checkpoint(2), 1);
  for (std::int64_t steps : {3, 4, 5}) save(storage, "out", not_finite(steps), 1);
  EXPECT_THAT(storage.list("out/checkpoints"),
              testing::ElementsAre("latest", "step-00000002", "step-00000005"));
  EXPECT_EQ(load_newest(storage, "out", Weights::Any)->checkpoint.steps, 5);
  const auto found = load_newest(storage, "out", Weights::Finite);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->checkpoint.steps, 2);
  EXPECT_THAT(found->passed_over,
              testing::ElementsAre(HasSubstr("step-00000005: has weights that are not finite")));
  save(storage, "out", sample_checkpoint(6), 1);
  EXPECT_THAT(storage.list("out/checkpoints"), testing::ElementsAre("latest", "step-00000006"));
}

TEST(FiniteWeights, NoneIsFoundWhereNoneAre) {
  CrashingStorage storage;
  save(storage, "out", not_finite(3), 1);
  EXPECT_THAT(checkpoint_error([&] { load_newest(storage, "out", Weights::Finite); }),
              HasSubstr("on_divergence"));
  EXPECT_EQ(find_not_finite(not_finite(1)), "fc.bias");
  EXPECT_EQ(find_not_finite(sample_checkpoint()), std::nullopt);
}

TEST(FiniteWeights, ThoseThatAreNotTrainedDoNotCount) {
  CrashingStorage storage;
  Checkpoint masked = not_finite(2);
  masked.frozen = {"fc.bias"};
  EXPECT_EQ(find_not_finite(masked), std::nullopt);
  save(storage, "out", masked, 1);
  EXPECT_EQ(load_newest(storage, "out", Weights::Finite)->checkpoint.steps, 2);
}

TEST(NewestWhole, TakesThePlaceOfDamagedOnes) {
  CrashingStorage storage;
  for (std::int64_t steps : {1, 2, 3, 4}) save(storage, "out", sample_checkpoint(steps), 9);
  storage.files["out/checkpoints/step-00000004/model.safetensors"].resize(9);
  storage.files.erase("out/checkpoints/step-00000003/rank-00001.safetensors");
  const auto found = load_newest(storage, "out", Weights::Finite);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, "out/checkpoints/step-00000002");
  expect_equal(found->checkpoint, sample_checkpoint(2));
  EXPECT_THAT(found->passed_over,
              testing::ElementsAre(HasSubstr("step-00000004/model.safetensors: is cut short"),
                                   HasSubstr("step-00000003/rank-00001.safetensors: is missing")));
  for (auto& [name, bytes] : storage.files)
    if (name.ends_with("plan.yaml")) bytes.clear();
  EXPECT_THAT(checkpoint_error([&] { load_newest(storage, "out", Weights::Any); }),
              HasSubstr("step-00000004"));
  EXPECT_FALSE(load_newest(storage, "elsewhere", Weights::Any));
}

TEST(NewestWhole, IsNotBeyondTheLatest) {
  CrashingStorage storage;
  for (std::int64_t steps : {2, 8, 3})
    save(storage, "out", sample_checkpoint(steps), 9);  // 8 is of a run before
  storage.files.erase("out/checkpoints/step-00000003/plan.yaml");
  EXPECT_EQ(load_newest(storage, "out", Weights::Any)->checkpoint.steps, 2);
}

TEST(NewestWhole, OfANewerFormatIsNotPassedOver) {
  CrashingStorage storage;
  for (std::int64_t steps : {1, 2}) save(storage, "out", sample_checkpoint(steps), 9);
  forge(storage, "out/checkpoints/step-00000002",
        [](nlohmann::ordered_json& json) { json["format_version"] = 2; });
  EXPECT_THAT(checkpoint_error([&] { load_newest(storage, "out", Weights::Any); }),
              HasSubstr("use that version"));
}

TEST(AStep, IsLoadedAsAskedFor) {
  CrashingStorage storage;
  for (std::int64_t steps : {1, 2, 3}) save(storage, "out", sample_checkpoint(steps), 9);
  expect_equal(load_step(storage, "out", 2).checkpoint, sample_checkpoint(2));
  EXPECT_THAT(checkpoint_error([&] { load_step(storage, "out", 7); }),
              HasSubstr("there are those of 1, 2, 3"));
  EXPECT_THAT(checkpoint_error([&] { load_step(storage, "elsewhere", 7); }), HasSubstr("and no other"));
  storage.files["out/checkpoints/step-00000002/plan.yaml"].clear();
  EXPECT_THAT(checkpoint_error([&] { load_step(storage, "out", 2); }), HasSubstr("step-00000002/plan.yaml"));
}

}  // namespace
}  // namespace taxon::checkpoint
