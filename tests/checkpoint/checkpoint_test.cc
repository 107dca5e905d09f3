#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/crashing_storage.h"
#include "checkpoint/manifest.h"
#include "checkpoint/samples.h"

namespace taxon::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::byte> bytes_of(const std::string& text) {
  auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Checkpoint, RoundTrip) {
  CrashingStorage storage;
  std::string path = save(storage, "out", sample_checkpoint(), 2);
  EXPECT_EQ(path, "out/checkpoints/step-00001234");
  expect_equal(load(storage, path), sample_checkpoint());
  EXPECT_THAT(storage.list(path),
              ElementsAre("manifest.json", "model.safetensors", "optimiser.safetensors", "plan.yaml",
                          "rank-00000.safetensors", "rank-00001.safetensors"));
  EXPECT_EQ(text_of(storage.read("out/checkpoints/latest")), "step-00001234\n");
  EXPECT_EQ(find_latest(storage, "out"), path);
}

TEST(Checkpoint, EqualRunsWriteEqualFiles) {
  CrashingStorage a, b;
  save(a, "out", sample_checkpoint(), 2);
  save(b, "out", sample_checkpoint(), 2);
  EXPECT_EQ(a.files, b.files);
}

TEST(Checkpoint, NothingThereIsNoCheckpoint) {
  CrashingStorage storage;
  EXPECT_EQ(find_latest(storage, "out"), std::nullopt);
  EXPECT_THAT(checkpoint_error([&] { load(storage, "out/checkpoints/step-00000001"); }),
              HasSubstr("no complete checkpoint"));
}

TEST(Checkpoint, EveryTruncationOfEveryFileIsRefusedByName) {
  CrashingStorage storage;
  std::string path = save(storage, "out", sample_checkpoint(), 2);
  auto whole = storage.files;
  for (const auto& [name, bytes] : whole) {
    if (!name.starts_with(path + "/")) continue;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      if (name.ends_with("manifest.json") && size + 1 == bytes.size())
        continue;  // its last byte is a newline
      storage.files[name].resize(size);
      EXPECT_THAT(checkpoint_error([&] { load(storage, path); }), StartsWith(name + ": ")) << size;
      storage.files[name] = bytes;
    }
  }
  expect_equal(load(storage, path), sample_checkpoint());
}

TEST(Checkpoint, EveryDamagedByteIsRefused) {
  CrashingStorage storage;
  std::string path = save(storage, "out", sample_checkpoint(), 2);
  auto whole = storage.files;
  for (const auto& [name, bytes] : whole) {
    if (!name.starts_with(path + "/")) continue;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      storage.files[name][i] ^= std::byte{0x20};
      EXPECT_THAT(checkpoint_error([&] { load(storage, path); }), HasSubstr(path)) << name << i;
      storage.files[name] = bytes;
    }
  }
}

TEST(Checkpoint, EveryMissingFileIsNamed) {
  CrashingStorage storage;
  std::string path = save(storage, "out", sample_checkpoint(), 2);
  auto whole = storage.files;
  for (const auto& [name, bytes] : whole) {
    if (!name.starts_with(path + "/") || name.ends_with("manifest.json")) continue;
    storage.files.erase(name);
    EXPECT_THAT(checkpoint_error([&] { load(storage, path); }), HasSubstr(name + ": is missing"));
    storage.files = whole;
  }
}

/// The machine dies after each single change to the disk while the third checkpoint is written. What is found
/// afterwards is always whole, and the next save succeeds.
TEST(Checkpoint, ACrashAtAnyInstantLeavesAWholeCheckpoint) {
  CrashingStorage before;
  save(before, "out", sample_checkpoint(100), 2);
  save(before, "out", sample_checkpoint(200), 2);
  CrashingStorage measured = before;
  measured.changes = 0;
  save(measured, "out", sample_checkpoint(300), 2);
  ASSERT_GT(measured.changes, 8);
  bool found_old = false, found_new = false;
  for (int lives = 0; lives < measured.changes; ++lives) {
    CrashingStorage storage = before;
    storage.changes = 0;
    storage.lives = lives;
    EXPECT_THROW(save(storage, "out", sample_checkpoint(300), 2), Crash);
    auto path = find_latest(storage, "out");
    ASSERT_TRUE(path) << lives;
    Checkpoint found = load(storage, *path);
    EXPECT_TRUE(found.steps == 200 || found.steps == 300) << lives;
    (found.steps == 200 ? found_old : found_new) = true;
    expect_equal(found, sample_checkpoint(found.steps));

    storage.lives = -1;
    std::string again = save(storage, "out", sample_checkpoint(300), 2);
    EXPECT_EQ(find_latest(storage, "out"), again);
    expect_equal(load(storage, again), sample_checkpoint(300));
  }
  EXPECT_TRUE(found_old);
  EXPECT_TRUE(found_new);
}

TEST(Checkpoint, ACrashDuringTheFirstSaveLeavesNone) {
  CrashingStorage storage;
  storage.lives = 4;
  EXPECT_THROW(save(storage, "out", sample_checkpoint(), 2), Crash);
  EXPECT_EQ(find_latest(storage, "out"), std::nullopt);
  EXPECT_THAT(checkpoint_error([&] { load(storage, "out/checkpoints/step-00001234"); }),
              HasSubstr("no complete checkpoint"));
}

TEST(Checkpoint, KeepsTheNewest) {
  CrashingStorage storage;
  for (std::int64_t steps : {100, 200, 300, 400}) save(storage, "out", sample_checkpoint(steps), 2);
  EXPECT_THAT(storage.list("out/checkpoints"), ElementsAre("latest", "step-00000300", "step-00000400"));
  save(storage, "out", sample_checkpoint(500), 0);
  EXPECT_THAT(storage.list("out/checkpoints"), ElementsAre("latest", "step-00000500"))
      << "at least one is kept";
}

TEST(Checkpoint, AFreshRunInAUsedFolderNeitherPrunesItselfNorTheOtherRun) {
  CrashingStorage storage;
  save(storage, "out", sample_checkpoint(9000), 1);
  for (std::int64_t steps : {100, 200}) save(storage, "out", sample_checkpoint(steps), 1);
  EXPECT_EQ(find_latest(storage, "out"), "out/checkpoints/step-00000200");
  EXPECT_THAT(storage.list("out/checkpoints"), ElementsAre("latest", "step-00000200", "step-00009000"));
}

TEST(Checkpoint, SavingAStepTwiceReplacesItWithoutAGap) {
  CrashingStorage storage;
  save(storage, "out", sample_checkpoint(100), 1);
  Checkpoint changed = sample_checkpoint(100);
  changed.seed = 8;
  std::string path = save(storage, "out", changed, 1);
  EXPECT_EQ(load(storage, path).seed, 8U);
  EXPECT_EQ(find_latest(storage, "out"), path);
  EXPECT_EQ(storage.list("out/checkpoints").size(), 2U);
}

TEST(Checkpoint, FindsTheNewestWithoutThePointer) {
  CrashingStorage storage;
  for (std::int64_t steps : {100, 200}) save(storage, "out", sample_checkpoint(steps), 5);
  for (const char* pointer :
       {"", "step-00000100", "step-00000300\n", "../../etc\n", "step-1\n", "rubbish\n"}) {
    storage.files["out/checkpoints/latest"] = bytes_of(pointer);
    EXPECT_EQ(find_latest(storage, "out"), "out/checkpoints/step-00000200") << pointer;
  }
  storage.files["out/checkpoints/latest"] = bytes_of("step-00000100\n");
  EXPECT_EQ(find_latest(storage, "out"), "out/checkpoints/step-00000100");
  storage.remove("out/checkpoints/latest");
  storage.files["out/checkpoints/step-00000900/model.safetensors"] = {};
  storage.files["out/checkpoints/step-00000900.tmp/manifest.json"] = {};
  EXPECT_EQ(find_latest(storage, "out"), "out/checkpoints/step-00000200") << "incomplete ones don't count";
}

TEST(Checkpoint, ANewerFormatIsRefusedBeforeAnythingElseIsRead) {
  CrashingStorage storage;
  std::string path = save(storage, "out", sample_checkpoint(), 2), manifest = path + "/manifest.json";
  std::string text = text_of(storage.read(manifest)), version = "\"format_version\": 1";
  text.replace(text.find(version), version.size(), "\"format_version\": 2");
  storage.files[manifest] = bytes_of(text);
  std::string message = checkpoint_error([&] { load(storage, path); });
  EXPECT_THAT(message, HasSubstr("format 2"));
  EXPECT_THAT(message, HasSubstr("0.1.0"));
  EXPECT_THAT(message, HasSubstr("up to 1"));
  storage.files[manifest] = bytes_of("{}");
  EXPECT_THAT(checkpoint_error([&] { load(storage, path); }), HasSubstr("no manifest"));
  storage.files[manifest] = bytes_of("[1]");
  EXPECT_THAT(checkpoint_error([&] { load(storage, path); }), HasSubstr("no manifest"));
}

TEST(Checkpoint, FilesOfTwoCheckpointsDoNotMix) {
  CrashingStorage storage;
  std::string a = save(storage, "out", sample_checkpoint(100), 5);
  std::string b = save(storage, "out", sample_checkpoint(200), 5);
  storage.files[b + "/model.safetensors"] = storage.files[a + "/model.safetensors"];
  EXPECT_THAT(checkpoint_error([&] { load(storage, b); }), HasSubstr("its hash is not the manifest's"));
}

TEST(Manifest, KeepsWhatItIsGiven) {
  Manifest manifest{"1.2", "00ff", 5, 3, 10, 640, {{"a", {7, "0123"}}}};
  std::string text = write_manifest(manifest);
  Manifest back = read_manifest(as_const_view(std::span<const char>(text)), "m");
  EXPECT_EQ(write_manifest(back), text);
  EXPECT_EQ(back.files.at("a").bytes, 7U);
}

TEST(Manifest, HashesAreXxHash64) {  // of nothing and of "abc", seed 0: xxHash's specification
  EXPECT_EQ(hash_text({}), "ef46db3751d8e999");
  std::string abc = "abc";
  EXPECT_EQ(hash_text(as_const_view(std::span<const char>(abc))), "44bc2cf5ad770999");
}

TEST(RequireSameModel, AcceptsTheSameNamesAndShapesInAnyOrder) {
  auto weights = sample_checkpoint().weights, model = weights;
  std::swap(model[0], model[1]);
  for (auto& t : model) t.bytes.clear(), t.type = DType::BFloat16;
  require_same_model(weights, model, "c");
}

TEST(RequireSameModel, ListsTheFirstDifferencesInOneLine) {
  auto weights = sample_checkpoint().weights, model = weights;
  model[0].shape = {4, 2};
  model[1].name = "fc.scale";
  std::string text = checkpoint_error([&] { require_same_model(weights, model, "dir/step-1"); });
  EXPECT_EQ(
      text,
      "dir/step-1: is a checkpoint of another model: fc.weight is [2, 2] there and [4, 2] in the model; "
      "fc.scale [2] is missing; fc.bias [2] is not in the model");
  std::vector<LogicalTensor> large;
  for (int i = 0; i < 10; ++i) large.push_back({"p" + std::to_string(i), DType::Float32, {1}, {}});
  text = checkpoint_error([&] { require_same_model(weights, large, "c"); });
  EXPECT_THAT(text, testing::EndsWith("p3 [1] is missing; and 8 more"));
}

TEST(ModelHash, DependsOnNamesAndShapesAlone) {
  auto a = sample_checkpoint(1).weights, b = sample_checkpoint(2).weights;
  EXPECT_EQ(model_hash(a), model_hash(b));
  b[0].shape = {4, 1};
  EXPECT_NE(model_hash(a), model_hash(b));
  b = a;
  b[0].name += "x";
  EXPECT_NE(model_hash(a), model_hash(b));
  EXPECT_EQ(model_hash(a).size(), 16U);
}

}  // namespace
}  // namespace taxon::checkpoint
