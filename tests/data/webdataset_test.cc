#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "data/image_files.h"
#include "data/opened.h"
#include "data/tar_shard.h"

namespace taxon::data {
namespace {

using test::failure_of;
using test::jpeg;
using test::plain;
using test::put;
using testing::ElementsAre;
using testing::HasSubstr;

using Files = std::vector<std::pair<std::string, std::vector<std::byte>>>;

std::vector<std::byte> text(const std::string& words) {
  const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
  return {bytes, bytes + words.size()};
}

std::vector<std::byte> tar(const Files& files) {
  std::vector<std::byte> bytes(1 << 20);
  std::size_t used = 0;
  archive* out = archive_write_new();
  archive_write_set_format_pax_restricted(out);
  archive_write_open_memory(out, bytes.data(), bytes.size(), &used);
  for (const auto& [name, content] : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(out, entry);
    archive_write_data(out, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_close(out);
  archive_write_free(out);
  bytes.resize(used);
  return bytes;
}

class WebDataset : public testing::Test {
 protected:
  WebDataset() {
    // The second name needs a header of its own (pax) for its length.
    put(storage_, "/d/train/0.tar",
        tar({{"a.jpg", jpeg(plain(4, 4, 200, 0, 0), 4, 4)},
             {"a.cls", text("0\n")},
             {std::string(300, 'b') + ".cls", text("2")},
             {std::string(300, 'b') + ".jpg", jpeg(plain(4, 4, 0, 200, 0), 4, 4)}}));
    put(storage_, "/d/train/1.tar",
        tar({{"x/c.0.png", test::png(plain(4, 4, 0, 0, 99), 4, 4)},
             {"x/d.png", test::png(plain(4, 4, 0, 0, 99), 4, 4)},
             {"x/d.json", text("{}")},
             {"x/d.cls", text("1")}}));
    put(storage_, "/d/test/0.tar",
        tar({{"t.png", test::png(plain(4, 4, 1, 2, 3), 4, 4)}, {"t.cls", text("1")}}));
  }
  MemoryStorage storage_;
  plan::DataPlan plan_ = test::data_plan("webdataset");
};

TEST_F(WebDataset, SamplesAreFilesOfOneName) {
  plan_.faulty = plan::OnFaulty::Skip;  // c has no label, and its image no ending that is known
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->shape(), (SampleShape{.input = {3, 4, 4}, .classes = 3}));
  const auto [inputs, labels] = test::all_of(*sets.train);
  EXPECT_THAT(labels, ElementsAre(0, 2, 1));
  EXPECT_NEAR(inputs[0] * 255, 200, 3);
  EXPECT_NEAR(inputs[48 + 16] * 255, 200, 3);
  EXPECT_FLOAT_EQ(inputs[96 + 32] * 255, 99);
  EXPECT_EQ(sets.test->size(), 1);
  EXPECT_THAT(sets.faults->news().value(), HasSubstr("/d/train/1.tar: x/c: has no image"));
}

TEST_F(WebDataset, FaultySamplesAreNamed) {
  put(storage_, "/d/train/1.tar",
      tar({{"e.jpg", jpeg(plain(4, 4, 1, 1, 1), 4, 4)},
           {"e.cls", text("cat")},
           {"f.jpg", text("no image")},
           {"f.cls", text("1")},
           {"g.jpg", jpeg(plain(4, 4, 1, 1, 1), 4, 4)},
           {"g.cls", text("3")}}));
  EXPECT_THAT(failure_of(plan_, storage_),
              HasSubstr("/d/train/1.tar: e: its label (.cls) is no whole number of at least 0"));
  plan_.faulty = plan::OnFaulty::Skip;
  plan_.options = {{"classes", 3}};
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->size(), 2);
  const std::string news = sets.faults->news().value();
  EXPECT_THAT(news, HasSubstr("/d/train/1.tar: f.jpg: is neither a JPEG nor a PNG file"));
  EXPECT_THAT(news, HasSubstr("/d/train/1.tar: g.jpg: its label is 3, and 0 to 2 are wanted"));
}

TEST_F(WebDataset, ShardsThatAreCutShort) {
  auto bytes = tar({{"a.cls", text("0")},
                    {"a.png", test::png(plain(4, 4, 5, 5, 5), 4, 4)},
                    {"b.cls", text("1")},
                    {"b.png", std::vector<std::byte>(5000)}});
  bytes.resize(4 * 1024);
  put(storage_, "/d/train/1.tar", bytes);
  EXPECT_THAT(failure_of(plan_, storage_),
              HasSubstr("/d/train/1.tar: b.png: is cut short: the archive ends in it"));
  plan_.faulty = plan::OnFaulty::Skip;
  EXPECT_EQ(open_datasets(plan_, storage_).train->size(), 3);
}

TEST_F(WebDataset, WhatIsNoTarArchive) {
  put(storage_, "/d/train/1.tar", std::vector<std::byte>(3000, std::byte{0x1f}));
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("/d/train/1.tar: is no tar archive"));
  plan_.path = "/d/train/x";
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("/d/train/x: there is no such folder"));
}

TEST_F(WebDataset, AnyCutAndAnyEditIsAnErrorOrAList) {
  const auto whole = storage_.read("/d/train/0.tar");
  FaultLog faults(plan::OnFaulty::Skip);
  auto look = [&](const std::vector<std::byte>& bytes) {
    put(storage_, "/x.tar", bytes);
    try {
      for (const TarEntry& entry : list_tar(storage_, "/x.tar", faults))
        read_tar(storage_, "/x.tar", entry, 1 << 20);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Data);
    }
  };
  for (std::size_t size = 0; size < whole.size(); size += 97)
    look({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
  Rng rng(1, "edits");
  for (int trial = 0; trial < 300; ++trial) {
    auto edited = whole;
    edited[rng.below(whole.size())] = static_cast<std::byte>(rng.below(256));
    look(edited);
  }
}

}  // namespace
}  // namespace taxon::data
