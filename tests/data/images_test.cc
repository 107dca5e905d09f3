#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "data/decode_image.h"
#include "data/image_files.h"
#include "data/opened.h"
#include "data/selection.h"
#include "data/split.h"

namespace taxon::data {
namespace {

using test::failure_of;
using test::jpeg;
using test::plain;
using test::png;
using test::put;
using testing::ElementsAre;
using testing::HasSubstr;

class Images : public testing::Test {
 protected:
  Images() {
    put(storage_, "/d/train/cat/1.jpg", jpeg(plain(8, 6, 200, 100, 50), 8, 6));
    put(storage_, "/d/train/cat/2.png", png(plain(8, 6, 10, 20, 30), 8, 6));
    put(storage_, "/d/train/dog/1.JPEG", jpeg(plain(8, 6, 0, 255, 0), 8, 6));
    put(storage_, "/d/test/dog/1.png", png(plain(8, 6, 255, 0, 0), 8, 6));
  }
  Datasets open() { return open_datasets(plan_, storage_); }
  /// Cuts off what is needed: a JPEG ends in a marker of two bytes, a PNG in 16 that say nothing of its
  /// pixels.
  void cut(const std::string& path) {
    auto bytes = storage_.read(path);
    bytes.resize(bytes.size() - (path.ends_with("png") ? 24 : 4));
    put(storage_, path, bytes);
  }
  MemoryStorage storage_;
  plan::DataPlan plan_ = test::data_plan("images");
};

TEST_F(Images, FoldersAreClassesInTheOrderOfTheirNames) {
  const Datasets sets = open();
  EXPECT_EQ(sets.train->shape(), (SampleShape{.input = {3, 6, 8}, .classes = 2}));
  const auto [inputs, labels] = test::all_of(*sets.train);
  EXPECT_THAT(labels, ElementsAre(0, 0, 1));
  for (std::size_t k = 0; k < 48; ++k) {
    EXPECT_NEAR(inputs[k] * 255, 200, 3);        // red of the JPEG
    EXPECT_NEAR(inputs[48 + k] * 255, 100, 3);   // green
    EXPECT_NEAR(inputs[96 + k] * 255, 50, 3);    // blue
    EXPECT_FLOAT_EQ(inputs[144 + k] * 255, 10);  // of the PNG, exactly
    EXPECT_FLOAT_EQ(inputs[240 + k] * 255, 30);
  }
  EXPECT_THAT(test::all_of(*sets.test).second, ElementsAre(1));
}

TEST_F(Images, GreyAndNormalised) {
  plan_.options = {{"channels", 1}};
  plan_.mean = 0.5;
  plan_.deviation = 0.25;
  const Datasets sets = open();
  EXPECT_THAT(sets.train->shape().input, ElementsAre(1, 6, 8));
  const double grey = 0.299 * 200 + 0.587 * 100 + 0.114 * 50;
  EXPECT_NEAR(test::all_of(*sets.train).first[0], (grey / 255 - 0.5) / 0.25, 0.05);
}

TEST_F(Images, OtherSizesAreFaultyUnlessOneIsAskedFor) {
  put(storage_, "/d/train/dog/2.png", png(plain(16, 16, 9, 9, 9), 16, 16));
  EXPECT_THAT(failure_of(plan_, storage_),
              HasSubstr("/d/train/dog/2.png: is an image of 16 x 16 pixels, the first is of 6 x 8"));
  plan_.options = {{"height", 4}, {"width", 4}};
  const Datasets sets = open();
  EXPECT_THAT(sets.train->shape().input, ElementsAre(3, 4, 4));
  const auto inputs = test::all_of(*sets.train).first;
  EXPECT_NEAR(inputs[3 * 48] * 255, 9, 1e-3);
  EXPECT_NEAR(inputs[0] * 255, 200, 3);
  plan_.options = {{"height", 4}};
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("give both, or neither"));
}

TEST_F(Images, WhatIsNoImageEndsTheRunBeforeItStarts) {
  put(storage_, "/d/train/dog/notes.txt", std::string("buy milk"));
  EXPECT_THAT(failure_of(plan_, storage_),
              HasSubstr("/d/train/dog/notes.txt: is neither a JPEG nor a PNG file by its first bytes"));
  put(storage_, "/d/train/dog/notes.txt", std::string());
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("/d/train/dog/notes.txt: is empty"));
}

TEST_F(Images, FilesThatAreCutShortAreFoundWhenTheyAreDecoded) {
  for (const char* path : {"/d/train/cat/1.jpg", "/d/train/cat/2.png"}) {
    const auto whole = storage_.read(path);
    cut(path);
    EXPECT_THAT(failure_of(plan_, storage_), HasSubstr(std::string(path) + ": is a damaged "));
    open();  // heads are fine
    plan_.options = {{"check", "all"}};
    EXPECT_THROW(open(), Error);
    plan_.options = {};
    put(storage_, path, whole);
  }
}

TEST_F(Images, TheNextSampleTakesTheFaultyOnesPlace) {
  cut("/d/train/cat/1.jpg");
  plan_.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open();
  for (int again = 0; again < 2; ++again) {
    const auto [inputs, labels] = test::all_of(*sets.train);
    EXPECT_EQ(sets.train->size(), 3);
    EXPECT_FLOAT_EQ(inputs[0] * 255, 10);
    EXPECT_THAT(labels, ElementsAre(0, 0, 1));
  }
  EXPECT_EQ(sets.faults->count(), 1);
  EXPECT_THAT(sets.faults->news().value(),
              HasSubstr("1 faulty sample is left out so far: /d/train/cat/1.jpg: "));
  EXPECT_FALSE(sets.faults->rest());
}

// What was set aside takes no training sample's place, nor the other way round.
TEST_F(Images, AFaultyOnesPlaceIsTakenFromItsOwnPartOfTheSet) {
  cut("/d/train/cat/1.jpg");
  plan_.faulty = plan::OnFaulty::Skip;
  const std::shared_ptr<const Dataset> whole = open().train;  // its first is faulty
  ASSERT_EQ(whole->size(), 3);
  const auto whole_inputs = test::all_of(*whole).first;
  const auto two = select(whole, Order::AsTheyLie, 0, 0, 2), last = select(whole, Order::AsTheyLie, 0, 2, 1);
  EXPECT_EQ(test::all_of(*two).second.size(), 2u);
  const auto elements = whole_inputs.size() / 3;
  const auto inputs = test::all_of(*two).first;
  const std::vector<float> second(whole_inputs.begin() + static_cast<std::ptrdiff_t>(elements),
                                  whole_inputs.begin() + static_cast<std::ptrdiff_t>(2 * elements));
  for (std::size_t sample = 0; sample < 2; ++sample)
    EXPECT_TRUE(std::equal(second.begin(), second.end(),
                           inputs.begin() + static_cast<std::ptrdiff_t>(sample * elements)));
  const auto first_alone = select(whole, Order::AsTheyLie, 0, 0, 1);
  EXPECT_THROW(test::all_of(*first_alone), Error);
  // Of a selection too, as data.train_limit makes one.
  const auto first_of_two = select(select(whole, Order::AsTheyLie, 0, 0, 2), Order::AsTheyLie, 0, 0, 1);
  EXPECT_THROW(test::all_of(*first_of_two), Error);
  EXPECT_EQ(test::all_of(*last).second, (std::vector<std::int64_t>{1}));
}

TEST_F(Images, WhatIsFoundBeforeTheRunIsNoSampleAtAll) {
  put(storage_, "/d/train/cat/3.jpg", std::string("no image"));
  put(storage_, "/d/test/eel/1.jpg", jpeg(plain(8, 6, 1, 1, 1), 8, 6));
  plan_.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open();
  EXPECT_EQ(sets.train->size(), 3);
  EXPECT_EQ(sets.test->size(), 1);
  EXPECT_EQ(sets.faults->count(), 2);
  EXPECT_THAT(sets.faults->news().value(),
              HasSubstr("/d/test/eel: is a class that the training set does not have"));
  plan_.faulty = plan::OnFaulty::Stop;
  EXPECT_THROW(open(), Error);
}

TEST_F(Images, MissingFoldersAreNamed) {
  plan_.path = "/nowhere";
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("/nowhere: there is no such folder"));
  plan_.path = "/d/train/cat";
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("/d/train/cat: has 0 sub-folders with images in it"));
}

TEST_F(Images, ATestSetOfItsOwnOrNone) {
  plan_.path = "/d/train";
  EXPECT_EQ(open().test, nullptr);
  plan::Plan plan{.data = plan_};
  try {
    open_split(plan, storage_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("/d/train has no test samples; give data.test_path"));
  }
  plan_.test_path = "/d/test";
  EXPECT_EQ(open().test->size(), 1);
}

TEST_F(Images, AClassMayBeCalledTrain) {
  for (const char* name : {"bus", "car", "train"})
    for (const char* folder : {"/vehicles/", "/t/"})
      put(storage_, std::string(folder) + name + "/x.png", png(plain(8, 6, 1, 2, 3), 8, 6));
  plan_.path = "/vehicles";
  plan_.test_path = "/t";
  const Datasets sets = open();
  EXPECT_EQ(sets.train->shape().classes, 3);
  EXPECT_THAT(test::all_of(*sets.train).second, ElementsAre(0, 1, 2));
  EXPECT_THAT(test::all_of(*sets.test).second, ElementsAre(0, 1, 2));
}

TEST_F(Images, HalvesWithoutClassesAreNoClasses) {
  for (const char* path : {"/flat/train/x.png", "/flat/test/x.png", "/alone/train/x.png"})
    put(storage_, path, png(plain(8, 6, 1, 2, 3), 8, 6));
  for (const char* path : {"/flat", "/alone"}) {
    plan_.path = path;
    EXPECT_THAT(failure_of(plan_, storage_),
                HasSubstr(plan_.path + "/train: has 0 sub-folders with images in it"));
  }
}

TEST(DecodeImage, AnyCutAndAnyEditIsAFaultOrAnImage) {
  const test::Pixels pixels = plain(20, 20, 1, 90, 200);
  for (const auto& whole : {jpeg(pixels, 20, 20), png(pixels, 20, 20)}) {
    for (std::size_t size = 0; size + 24 < whole.size(); size += 7)
      EXPECT_THROW(decode_image(std::span(whole).first(size), 3, 0, 0), ImageFault) << size;
    Rng rng(3, "edits");
    for (int trial = 0; trial < 200; ++trial) {
      auto edited = whole;
      edited[rng.below(edited.size())] ^= static_cast<std::byte>(1 + rng.below(255));
      try {
        const DecodedImage image = decode_image(edited, 3, 0, 0);
        EXPECT_EQ(std::ssize(image.pixels), 3 * image.extents.height * image.extents.width);
      } catch (const ImageFault&) {
      }
    }
  }
}

TEST(DecodeImage, SixteenBitsAreNoMoreLinearThanEight) {
  for (const auto& [grey, byte] : {std::pair(0, 0), {0x8000, 128}, {0x1010, 16}, {0xffff, 255}})
    for (int channels : {1, 3})
      EXPECT_THAT(decode_image(test::png_of_16_bits(grey, 3, 2), channels, 0, 0).pixels,
                  testing::AllOf(testing::SizeIs(6 * channels), testing::Each(byte)));
}

TEST(DecodeImage, GreyIsTheSameOfEitherKind) {
  const int colours[][3] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {200, 30, 90}, {128, 128, 128}};
  for (const auto& [red, green, blue] : colours) {
    const test::Pixels pixels = plain(8, 8, red, green, blue);
    const float grey = decode_image(png(pixels, 8, 8), 1, 0, 0).pixels[0];
    EXPECT_NEAR(grey, 0.299 * red + 0.587 * green + 0.114 * blue, 0.51);
    EXPECT_NEAR(grey, decode_image(jpeg(pixels, 8, 8), 1, 0, 0).pixels[0], 3);
  }
  for (int grey = 0; grey < 256; ++grey)
    EXPECT_EQ(decode_image(png(plain(1, 1, grey, grey, grey), 1, 1), 1, 0, 0).pixels[0], grey);
}

TEST(DecodeImage, WhatIsTransparentIsBlack) {
  const test::Pixels pixels = {200, 100, 50, 128, 200, 100, 50, 0, 200, 100, 50, 255};
  const auto file = png(pixels, 3, 1, PNG_FORMAT_RGBA);
  EXPECT_THAT(decode_image(file, 3, 0, 0).pixels, ElementsAre(100, 0, 200, 50, 0, 100, 25, 0, 50));
  EXPECT_THAT(decode_image(file, 1, 0, 0).pixels, ElementsAre(62, 0, 124));
}

TEST(DecodeImage, ShrinksWhileItDecodesAsFarAsTheSizeAllows) {
  const auto file = jpeg(plain(64, 32, 50, 60, 70), 64, 32);
  EXPECT_EQ(decode_image(file, 3, 0, 0).extents.width, 64);
  EXPECT_EQ(decode_image(file, 3, 16, 16).extents.height, 16);
  EXPECT_EQ(decode_image(file, 3, 17, 16).extents.height, 32);
  EXPECT_EQ(decode_image(file, 3, 1, 1).extents.height, 4);
}

}  // namespace
}  // namespace taxon::data
