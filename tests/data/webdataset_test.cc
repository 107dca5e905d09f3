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

void append_entry(std::vector<std::byte>& tar, char type, const std::vector<std::byte>& content) {
  std::string head(512, '\0');
  head.replace(0, 5, "entry");
  head.replace(100, 7, "0000644");
  head.replace(108, 7, "0000000");
  head.replace(116, 7, "0000000");
  head.replace(124, 11, fmt::format("{:011o}", content.size()));
  head.replace(136, 11, "00000000000");
  head.replace(148, 8, 8, ' ');
  head[156] = type;
  head.replace(257, 5, "ustar");
  head.replace(263, 2, "00");
  int sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  head.replace(148, 6, fmt::format("{:06o}", sum));
  const auto bytes = text(head);
  tar.insert(tar.end(), bytes.begin(), bytes.end());
  tar.insert(tar.end(), content.begin(), content.end());
  tar.resize((tar.size() + 511) / 512 * 512);
}

/// As Python's tarfile writes names that are not ASCII (libarchive's writer needs a locale of UTF-8).
std::vector<std::byte> tar_of_utf8(const Files& files) {
  std::vector<std::byte> all;
  for (const auto& [name, content] : files) {
    const std::string record = " path=" + name + "\n";
    append_entry(all, 'x', text(fmt::format("{}{}", record.size() + 2, record)));
    append_entry(all, '0', content);
  }
  all.resize(all.size() + 1024);
  return all;
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
  /// All that one training shard gives that is these two, joined.
  auto joined(std::vector<std::byte> first, const std::vector<std::byte>& second) {
    first.insert(first.end(), second.begin(), second.end());
    put(storage_, "/d/train/0.tar", first);
    storage_.remove("/d/train/1.tar");
    return test::all_of(*open_datasets(plan_, storage_).train);
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

/// As Python's tarfile writes them, whatever the locale is.
TEST_F(WebDataset, NamesMayBeAnyUtf8) {
  put(storage_, "/d/train/0.tar",
      tar_of_utf8({{"größe.png", test::png(plain(4, 4, 1, 2, 3), 4, 4)},
                   {"größe.cls", text("0")},
                   {"大.png", test::png(plain(4, 4, 1, 2, 3), 4, 4)},
                   {"大.cls", text("1")}}));
  storage_.remove("/d/train/1.tar");
  EXPECT_THAT(test::all_of(*open_datasets(plan_, storage_).train).second, ElementsAre(0, 1));
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

/// A file of NumPy's: elements of that type, such as "<i4", in that shape.
template <class T>
std::vector<std::byte> array(const std::string& type, const std::string& shape,
                             const std::vector<T>& elements) {
  std::string head = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  head.resize((head.size() + 10 + 63) / 64 * 64 - 10, ' ');
  std::string file = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(head.size()) + '\0' + head;
  file.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
  return text(file);
}

/// An image, three words and two flags.
Files sample_of_three(const std::string& name, int red, const std::vector<std::int32_t>& words,
                      const std::vector<std::uint8_t>& flags, const std::string& label) {
  return {{name + ".words.npy", array("<i4", "3,", words)},
          {name + ".png", test::png(plain(2, 2, red, 0, 0), 2, 2)},
          {name + ".cls", text(label)},
          {name + ".mask.npy", array("|u1", "1, 2", flags)}};
}

class SeveralInputs : public WebDataset {
 protected:
  SeveralInputs() {
    plan_.options = {{"inputs", "[jpg;png, int64:words.npy, bool:mask.npy]"}};
    put_train({});
    put(storage_, "/d/test/0.tar", tar(sample_of_three("t", 9, {7, 8, 9}, {1, 1}, "1")));
  }
  /// Beside a sample that is right.
  void put_train(const Files& more) {
    Files files = sample_of_three("a", 200, {1, 2, 3}, {1, 0}, "0");
    files.insert(files.end(), more.begin(), more.end());
    put(storage_, "/d/train/0.tar", tar(files));
    put(storage_, "/d/train/1.tar", tar(sample_of_three("a", 50, {4, 5, 6}, {0, 1}, "1")));
  }
};

TEST_F(SeveralInputs, AreFilesOfASampleByTheirEndings) {
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(
      sets.train->shape(),
      (SampleShape{.input = {3, 2, 2}, .classes = 2, .more = {{{3}, DType::Int64}, {{1, 2}, DType::UInt8}}}));
  const Samples samples = test::samples_of(*sets.train);
  EXPECT_FLOAT_EQ(numbers(samples.parts[0].values())[0] * 255, 200);
  EXPECT_FLOAT_EQ(numbers(samples.parts[0].values())[12] * 255, 50);
  EXPECT_THAT(test::all_of(samples.parts[1]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(test::all_of(samples.parts[2]), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(test::all_of(samples.labels), ElementsAre(0, 1));
  EXPECT_THAT(test::all_of(test::samples_of(*sets.test).parts[1]), ElementsAre(7, 8, 9));
}

TEST_F(SeveralInputs, MayHaveNoImageAndAreCutAndDrawnAsOthers) {
  plan_.options = {{"inputs", "[int64:words.npy]"}};
  plan_.train_limit = 1;
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->shape(), (SampleShape{.input = {3}, .classes = 2, .input_type = DType::Int64}));
  const Samples samples = test::samples_of(*sets.train);
  const double label = test::all_of(samples.labels)[0];
  EXPECT_THAT(test::all_of(samples.parts[0]), ElementsAre(3 * label + 1, 3 * label + 2, 3 * label + 3));
}

TEST_F(SeveralInputs, UnsignedBytesAsNumbersArePixels) {
  plan_.options = {{"inputs", "[mask.npy]"}};
  plan_.deviation = 0.5;
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->shape(), (SampleShape{.input = {1, 1, 2}, .classes = 2}));
  EXPECT_FLOAT_EQ(numbers(test::samples_of(*sets.train).parts[0].values())[0] * 255, 2);
}

TEST_F(SeveralInputs, FaultyFilesOfASampleAreNamedAndTakeItWithThem) {
  const std::vector<std::pair<Files, std::string>> faults = {
      {{{"b.png", test::png(plain(2, 2, 1, 1, 1), 2, 2)}, {"b.cls", text("0")}},
       "/d/train/0.tar: b: has no array (.words.npy)"},
      {sample_of_three("b", 1, {1, 2, 3}, {1, 2}, "0"),
       "/d/train/0.tar: b.mask.npy: its element 1 is 2, and 0 and 1 are wanted"},
      {{{"b.words.npy", array<std::int32_t>("<i4", "2,", {1, 2})},
        {"b.png", test::png(plain(2, 2, 1, 1, 1), 2, 2)},
        {"b.mask.npy", array<std::uint8_t>("|u1", "1, 2", {0, 0})},
        {"b.cls", text("0")}},
       "/d/train/0.tar: b.words.npy: is an array of [2], the first is of [3]"},
      {{{"b.words.npy", text("no array")},
        {"b.png", test::png(plain(2, 2, 1, 1, 1), 2, 2)},
        {"b.mask.npy", array<std::uint8_t>("|u1", "1, 2", {0, 0})},
        {"b.cls", text("0")}},
       "/d/train/0.tar: b.words.npy: its array: is no NumPy array"}};
  for (const auto& [files, why] : faults) {
    put_train(files);
    plan_.faulty = plan::OnFaulty::Stop;
    EXPECT_THAT(failure_of(plan_, storage_), HasSubstr(why));
    plan_.faulty = plan::OnFaulty::Skip;
    const Datasets sets = open_datasets(plan_, storage_);
    EXPECT_EQ(sets.train->size(), 2) << why;
    EXPECT_THAT(sets.faults->news().value(), HasSubstr(why));
  }
}

/// Where names alone are looked at before the run, the next sample takes the place of a faulty one.
TEST_F(SeveralInputs, FoundFaultyWhenReadAreReplacedInAllInputs) {
  put_train(sample_of_three("b", 77, {1, 2, 3}, {1, 2}, "0"));
  plan_.faulty = plan::OnFaulty::Skip;
  plan_.options = {{"inputs", "[png, int64:words.npy, bool:mask.npy]"}, {"check", "none"}};
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->size(), 3);
  const Samples samples = test::samples_of(*sets.train);
  EXPECT_THAT(test::all_of(samples.parts[1]), ElementsAre(1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_FLOAT_EQ(numbers(samples.parts[0].values())[12] * 255, 50);
  EXPECT_THAT(test::all_of(samples.labels), ElementsAre(0, 1, 1));
}

TEST_F(SeveralInputs, ThatMakeNoSenseAreRefused) {
  plan_.options = {{"inputs", "[int64:jpg]"}};
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("data.inputs: \"int64:jpg\" are images"));
  for (const char* inputs : {"[json]", "[jpg;npy]"}) {
    plan_.options = {{"inputs", inputs}};
    EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("names neither images (jpg, jpeg, png) nor arrays"));
  }
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

TEST_F(WebDataset, ShardsThatAreCutShortInALabel) {
  FaultLog none(plan::OnFaulty::Stop);
  auto bytes = tar({{"a.cls", text("0")},
                    {"a.png", test::png(plain(4, 4, 5, 5, 5), 4, 4)},
                    {"b.png", test::png(plain(4, 4, 5, 5, 5), 4, 4)},
                    {"b.cls", text("1")}});
  put(storage_, "/d/train/1.tar", bytes);
  bytes.resize(list_tar(storage_, "/d/train/1.tar", none).back().begin + 512);  // its header
  put(storage_, "/d/train/1.tar", bytes);
  EXPECT_THAT(failure_of(plan_, storage_),
              HasSubstr("/d/train/1.tar: after 4 files: is damaged or cut short"));
  plan_.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->size(), 3);
  EXPECT_THAT(sets.faults->news().value(), HasSubstr("b.cls is cut short"));
}

TEST_F(WebDataset, ShardsMayBeJoined) {
  const auto bytes = tar({{"a.cls", text("0")}, {"a.png", test::png(plain(4, 4, 5, 5, 5), 4, 4)}});
  const auto more = tar({{"b.png", test::png(plain(4, 4, 7, 5, 5), 4, 4)}, {"b.cls", text("2")}});
  const auto [inputs, labels] = joined(bytes, more);
  EXPECT_THAT(labels, ElementsAre(0, 2));
  EXPECT_FLOAT_EQ(inputs[0] * 255, 5);
  EXPECT_FLOAT_EQ(inputs[48] * 255, 7);
}

TEST_F(WebDataset, ShardsThatAreJoinedMayUseTheSameNames) {
  const auto bytes = tar({{"a.cls", text("0")}, {"a.png", test::png(plain(4, 4, 5, 5, 5), 4, 4)}});
  const auto more = tar({{"a.jpg", jpeg(plain(4, 4, 200, 0, 0), 4, 4)}, {"a.cls", text("2")}});
  const auto [inputs, labels] = joined(bytes, more);
  EXPECT_THAT(labels, ElementsAre(0, 2));
  EXPECT_FLOAT_EQ(inputs[0] * 255, 5);
  EXPECT_NEAR(inputs[48] * 255, 200, 3);
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
