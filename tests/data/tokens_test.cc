#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/opened.h"
#include "data/split.h"
#include "data/token_windows.h"
#include "data/utf8_check.h"

namespace taxon::data {
namespace {

using test::failure_of;
using test::put;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> uint16s(const std::vector<int>& tokens) {
  std::vector<std::byte> bytes;
  for (int token : tokens)
    for (int shift : {0, 8}) bytes.push_back(static_cast<std::byte>(token >> shift));
  return bytes;
}

/// Inputs and targets of one window.
std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> window(const Dataset& set,
                                                                       std::int64_t index) {
  const auto context = static_cast<std::size_t>(set.shape().elements());
  std::vector<std::int64_t> inputs(context), targets(context), indices = {index};
  set.read_tokens(indices, inputs, targets);
  return {inputs, targets};
}

TEST(Text, TargetsAreTheBytesThatFollow) {
  MemoryStorage storage;
  put(storage, "/d/train.txt", std::string("abcdefg"));
  put(storage, "/d/val.txt", std::string("xyz1"));
  const plan::DataPlan plan = test::data_plan("text", {{"context", 3}});
  const Datasets sets = open_datasets(plan, storage);
  EXPECT_EQ(
      sets.train->shape(),
      (SampleShape{.input = {3}, .classes = 256, .input_type = DType::Int64, .target = {3}, .bytes = true}));
  ASSERT_EQ(sets.train->size(), 2);
  EXPECT_THAT(window(*sets.train, 0).first, ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(window(*sets.train, 0).second, ElementsAre('b', 'c', 'd'));
  EXPECT_THAT(window(*sets.train, 1).second, ElementsAre('e', 'f', 'g'));
  EXPECT_EQ(sets.test->size(), 1);
}

TEST(Text, WindowsWithWhatIsNoTextAreLeftOut) {
  MemoryStorage storage;
  // A zero byte is the target of the first window's end and the input of the second.
  put(storage, "/d/train.txt", std::string("abc\0efghi\n\xffklmnop", 17));
  plan::DataPlan plan = test::data_plan("text", {{"context", 3}});
  EXPECT_THAT(failure_of(plan, storage),
              HasSubstr("/d/train.txt: line 1, byte 3: is a zero byte, which is no text"));
  plan.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open_datasets(plan, storage);
  ASSERT_EQ(sets.train->size(), 2);  // of 5
  EXPECT_THAT(window(*sets.train, 0).first, ElementsAre('g', 'h', 'i'));
  EXPECT_THAT(window(*sets.train, 1).first, ElementsAre('l', 'm', 'n'));
  EXPECT_THAT(sets.faults->news().value(),
              HasSubstr("line 2, byte 10: is not UTF-8: no character begins like this"));
  plan.faulty = plan::OnFaulty::Stop;
  plan.options.set("encoding", "bytes");
  EXPECT_EQ(open_datasets(plan, storage).train->size(), 5);
}

TEST(Text, AFileFullOfFaultsIsToldOfOnceForEachWindow) {
  MemoryStorage storage;
  put(storage, "/d/train.txt", "abcdefg" + std::string(999, '\0'));
  plan::DataPlan plan = test::data_plan("text", {{"context", 3}});
  plan.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open_datasets(plan, storage);
  EXPECT_EQ(sets.train->size(), 2);
  EXPECT_EQ(sets.faults->count(), (1006 - 1) / 3 - 2);
}

TEST(Text, TooShortForAWindow) {
  MemoryStorage storage;
  put(storage, "/d/train.txt", std::string("abc"));
  EXPECT_THAT(failure_of(test::data_plan("text", {{"context", 3}}), storage),
              HasSubstr("/d/train.txt: has 3 bytes, and a window of 3 and the byte after it is wanted"));
}

std::size_t faults_in(const std::string& text) {
  Utf8Check check;
  std::size_t faults = 0;
  for (char c : text) {  // in pieces of one byte
    const auto byte = static_cast<std::byte>(c);
    faults += check.take({&byte, 1}).size();
  }
  return faults + (check.end() ? 1 : 0);
}

TEST(Utf8, WhatIsAndWhatIsNot) {
  for (const char* good :
       {"plain", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(faults_in(good), 0u) << good;
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8"})
    EXPECT_GE(faults_in(bad), 1u);
  EXPECT_EQ(faults_in("\xc3(a"), 1u);  // found again at once
}

TEST(Tokens, OfBothWidths) {
  MemoryStorage storage;
  put(storage, "/d/train.bin", uint16s({1, 500, 3, 4, 5}));
  plan::DataPlan plan = test::data_plan("tokens", {{"context", 2}});
  const Datasets sets = open_datasets(plan, storage);
  EXPECT_EQ(sets.train->size(), 2);
  EXPECT_EQ(sets.train->shape().classes, 501);
  EXPECT_THAT(window(*sets.train, 0).second, ElementsAre(500, 3));
  std::vector<std::byte> wide;
  for (int token : {7, 70000, 8})
    for (int shift : {0, 8, 16, 24}) wide.push_back(static_cast<std::byte>(token >> shift));
  put(storage, "/d/train.bin", wide);
  plan.options.set("token_bytes", 4);
  EXPECT_THAT(window(*open_datasets(plan, storage).train, 0).first, ElementsAre(7, 70000));
}

TEST(Tokens, OutOfTheVocabularyAndCutShort) {
  MemoryStorage storage;
  auto bytes = uint16s({1, 9, 3, 4, 5, 6, 7});
  bytes.pop_back();
  put(storage, "/d/train.bin", bytes);
  plan::DataPlan plan = test::data_plan("tokens", {{"context", 2}, {"vocabulary", 9}});
  EXPECT_THAT(failure_of(plan, storage), HasSubstr("/d/train.bin: byte 12: the last token is cut short"));
  plan.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open_datasets(plan, storage);
  ASSERT_EQ(sets.train->size(), 1);  // of 2
  EXPECT_THAT(window(*sets.train, 0).first, ElementsAre(3, 4));
  EXPECT_THAT(sets.faults->news().value(), HasSubstr("token 1: is 9, and the vocabulary ends at 8"));
}

TEST(Tokens, TheTestSetHasTheTrainingSetsVocabulary) {
  MemoryStorage storage;
  put(storage, "/d/train.bin", uint16s({1, 2, 3}));
  put(storage, "/d/test.bin", uint16s({1, 4, 3}));
  EXPECT_THAT(failure_of(test::data_plan("tokens", {{"context", 2}}), storage),
              HasSubstr("/d/test.bin: token 1: is 4, and the vocabulary ends at 3"));
}

TEST(Tokens, SamplesAreReadWithATargetForEach) {
  MemoryStorage storage;
  put(storage, "/d/train.bin", uint16s({1, 2, 3, 4, 5}));
  put(storage, "/d/test.bin", uint16s({1, 2, 3}));
  const Datasets sets = open_datasets(test::data_plan("tokens", {{"context", 2}}), storage);
  const std::int64_t both[] = {1, 0};
  const Samples samples = read_samples(*sets.train, both);
  ASSERT_EQ(samples.parts.size(), 1u);
  EXPECT_THAT(whole(samples.parts[0].values()), ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(whole(samples.labels.values()), ElementsAre(4, 5, 2, 3));
  EXPECT_FALSE(sets.train->shape().bytes);
}

TEST(TokenWindows, RefusedWhereATokenIsAnInputOrATarget) {
  std::vector<char> refused;
  refuse_windows(refused, 3, 4, 4);
  EXPECT_THAT(refused, ElementsAre(1, 1, 0));
  refuse_windows(refused, 3, 4, 12);
  EXPECT_THAT(refused, ElementsAre(1, 1, 1));
  refused.clear();
  refuse_windows(refused, 3, 4, 5);
  EXPECT_THAT(refused, ElementsAre(0, 1, 0));
  EXPECT_EQ(count_windows(13, 4), 3);
  EXPECT_EQ(count_windows(12, 4), 2);
  EXPECT_EQ(count_windows(4, 4), 0);
}

}  // namespace
}  // namespace taxon::data
