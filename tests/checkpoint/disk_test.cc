#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/samples.h"
#include "data/storage.h"

namespace taxon::checkpoint {
namespace {

namespace fs = std::filesystem;

class OnDisk : public testing::Test {
 protected:
  OnDisk() : folder_(fs::path(testing::TempDir()) / ("taxon-checkpoint-" + std::to_string(getpid()))) {}
  ~OnDisk() override { fs::remove_all(folder_); }
  std::string out() const { return folder_.string(); }
  fs::path folder_;
  data::FileStorage storage_;
};

TEST_F(OnDisk, SavesFindsAndLoads) {
  EXPECT_EQ(find_latest(storage_, out()), std::nullopt);
  for (std::int64_t steps : {1, 2, 3}) save(storage_, out(), sample_checkpoint(steps), 2);
  auto path = find_latest(storage_, out());
  ASSERT_EQ(path, out() + "/checkpoints/step-00000003");
  expect_equal(load(storage_, *path), sample_checkpoint(3));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints"))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("latest", "step-00000002", "step-00000003"))
      << "older ones are gone, and nothing temporary is left";
}

TEST_F(OnDisk, ACutFileIsNamed) {
  std::string path = save(storage_, out(), sample_checkpoint(), 2);
  fs::resize_file(path + "/model.safetensors", 100);
  EXPECT_THAT(checkpoint_error([&] { load(storage_, path); }),
              testing::HasSubstr(path + "/model.safetensors: is cut short"));
  EXPECT_THAT(checkpoint_error([&] { read_safetensors(storage_, path + "/model.safetensors"); }),
              testing::HasSubstr("cut short"));
  fs::remove(path + "/model.safetensors");
  EXPECT_THAT(checkpoint_error([&] { read_safetensors(storage_, path + "/model.safetensors"); }),
              testing::HasSubstr("model.safetensors"));
}

}  // namespace
}  // namespace taxon::checkpoint
