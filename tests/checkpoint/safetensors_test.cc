#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/crashing_storage.h"
#include "checkpoint/samples.h"

namespace taxon::checkpoint {
namespace {

using testing::HasSubstr;

std::vector<LogicalTensor> samples() {
  return {tensor<std::uint8_t>("bytes", DType::UInt8, {3}, {1, 2, 3}),
          tensor<float>("w", DType::Float32, {2, 3}, {1, 2, 3, 4, 5, 6}),
          tensor<double>("scalar", DType::Float64, {}, {0.1}),
          tensor<float>("empty", DType::Float32, {0, 5}, {}),
          tensor<std::uint16_t>("half", DType::BFloat16, {1}, {0x3f80}),
          tensor<std::int64_t>("counter", DType::Int64, {1}, {-7}),
          tensor<std::int32_t>("i", DType::Int32, {2}, {-1, 1})};
}

std::vector<std::byte> file_of(const std::string& header, std::size_t data) {
  std::uint64_t length = header.size();
  std::vector<std::byte> file(sizeof length + header.size() + data);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), header.size());
  return file;
}

std::string refusal(const std::vector<std::byte>& file) {
  std::string text =
      checkpoint_error([&] { decode_safetensors(ConstView(file.data(), file.size()), "dir/x"); });
  EXPECT_THAT(text, testing::StartsWith("dir/x: ")) << "the file is named";
  return text;
}

std::string refusal(const std::string& header, std::size_t data) { return refusal(file_of(header, data)); }

std::string entry(const std::string& name, int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(end - begin) +
         "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(Safetensors, RoundTripKeepsOrderTypesShapesBytesAndMetadata) {
  Metadata metadata{{"format", "pt"}, {"note", "a \"quoted\" ü"}};
  auto file = encode_safetensors(samples(), metadata);
  Metadata back;
  expect_equal(decode_safetensors(ConstView(file.data(), file.size()), "x", &back), samples());
  EXPECT_EQ(back, metadata);
  EXPECT_EQ(file, encode_safetensors(samples(), metadata)) << "equal arguments, equal bytes";
}

TEST(Safetensors, FlagsAreBytesOfATypeOfTheirOwn) {
  std::vector<LogicalTensor> tensors = {tensor<std::uint8_t>("mask", DType::UInt8, {3}, {1, 0, 1})};
  tensors[0].is_flags = true;
  const auto file = encode_safetensors(tensors);
  EXPECT_THAT(std::string(reinterpret_cast<const char*>(file.data()), file.size()),
              HasSubstr("\"dtype\":\"BOOL\""));
  const auto back = decode_safetensors(ConstView(file.data(), file.size()), "x");
  expect_equal(back, tensors);
  EXPECT_TRUE(back[0].is_flags);
}

// Computed by hand from the format's description.
TEST(Safetensors, WritesTheseBytes) {
  auto file = encode_safetensors({tensor<std::uint8_t>("a", DType::UInt8, {2}, {0xaa, 0xbb})});
  std::string header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
  header.resize(56, ' ');
  auto expected = file_of(header, 2);
  expected[expected.size() - 2] = std::byte{0xaa};
  expected[expected.size() - 1] = std::byte{0xbb};
  EXPECT_EQ(file, expected);
}

TEST(Safetensors, DataAreAlignedForTheirType) {
  auto file = encode_safetensors(samples());
  std::uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  EXPECT_EQ((8 + length) % 8, 0U);
  auto* text = reinterpret_cast<const char*>(file.data()) + 8;
  auto header = nlohmann::json::parse(text, text + length);
  std::map<std::string, DType> types;
  for (const auto& t : samples()) types[t.name] = t.type;
  for (auto& [name, value] : header.items())
    EXPECT_EQ(value["data_offsets"][0].get<std::size_t>() % size_of(types.at(name)), 0U) << name;
}

TEST(Safetensors, NoTensorsAreAFileToo) {
  auto file = encode_safetensors({});
  EXPECT_TRUE(decode_safetensors(ConstView(file.data(), file.size()), "x").empty());
}

TEST(Safetensors, ReadsHeadersPaddedBySpacesAndInAnyOrder) {
  auto file = file_of("{" + entry("late", 2, 4) + "," + entry("early", 0, 2) + "}   ", 4);
  auto back = decode_safetensors(ConstView(file.data(), file.size()), "x");
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].name, "late");
}

TEST(Safetensors, RefusesEveryTruncation) {
  auto file = encode_safetensors(samples(), {{"k", "v"}});
  for (std::size_t size = 0; size < file.size(); ++size)
    refusal(std::vector<std::byte>(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)));
  auto longer = file;
  longer.push_back(std::byte{0});
  EXPECT_THAT(refusal(longer), HasSubstr("1 bytes after its last tensor"));
}

TEST(Safetensors, RefusesHeadersThatLie) {
  EXPECT_THAT(refusal("{" + entry("a", 0, 3) + "," + entry("b", 2, 4) + "}", 4), HasSubstr("'b' overlaps"));
  EXPECT_THAT(refusal("{" + entry("a", 0, 1) + "," + entry("b", 2, 4) + "}", 4), HasSubstr("a hole before"));
  EXPECT_THAT(refusal("{" + entry("a", 1, 4) + "}", 4), HasSubstr("a hole before tensor 'a'"));
  EXPECT_THAT(refusal("{" + entry("a", 0, 9) + "}", 4), HasSubstr("cut short"));
  EXPECT_THAT(refusal("{" + entry("a", 0, 2) + "," + entry("a", 2, 4) + "}", 4),
              HasSubstr("two entries 'a'"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4),
              HasSubstr("two entries 'dtype'"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"k":"v","k":"w"}})", 0), HasSubstr("two entries 'k'"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"k":1}})", 0), HasSubstr("no text"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4),
              HasSubstr("ends before"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}})", 4),
              HasSubstr("contradict"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4), HasSubstr("number"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4), HasSubstr("number"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4), HasSubstr("F16"));
  EXPECT_THAT(refusal(R"({"a":{"shape":[2],"data_offsets":[0,4]}})", 4), HasSubstr("no dtype"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","data_offsets":[0,4]}})", 4), HasSubstr("no shape"));
  EXPECT_THAT(refusal(R"({"a":7})", 0), HasSubstr("no shape"));
  EXPECT_THAT(refusal("{\"a\":{\"b\":{\"c\":{\"d\":{}}}}}", 0), HasSubstr("nested too deeply"));
  // 2^32 * 2^32 elements: the product must not wrap to 0 bytes.
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
              HasSubstr("contradict"));
}

TEST(Safetensors, RefusesWhatIsNoHeader) {
  EXPECT_THAT(refusal("[]", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal(" {}", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal("", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal("{\"a\":", 0), HasSubstr("damaged header"));
  EXPECT_THAT(refusal("{}{}", 0), HasSubstr("damaged header"));
  std::vector<std::byte> huge(8, std::byte{0xff});
  EXPECT_THAT(refusal(huge), HasSubstr("header would have"));
}

TEST(Safetensors, EveryDamagedByteOfAHeaderIsRefusedOrHarmless) {
  auto file = encode_safetensors(samples(), {{"k", "v"}});
  for (std::size_t i = 0; i < file.size(); ++i) {
    auto damaged = file;
    damaged[i] ^= std::byte{0x01};
    try {
      decode_safetensors(ConstView(damaged.data(), damaged.size()), "x");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Checkpoint);
    }
  }
}

TEST(Safetensors, MissingFilesAreNamed) {
  CrashingStorage storage;
  EXPECT_THAT(checkpoint_error([&] { read_safetensors(storage, "gone.safetensors"); }),
              HasSubstr("gone.safetensors"));
  write_safetensors(storage, "there.safetensors", samples());
  expect_equal(read_safetensors(storage, "there.safetensors"), samples());
}

TEST(SafetensorsDeathTest, RefusesTensorsThatContradictThemselves) {
  auto a = tensor<float>("a", DType::Float32, {2}, {1, 2});
  EXPECT_DEATH(encode_safetensors({a, a}), "two tensors of one file are called a");
  a.shape = {3};
  EXPECT_DEATH(encode_safetensors({a}), "a has 8 bytes");
}

}  // namespace
}  // namespace taxon::checkpoint
