// Codecs whose sums one member alone has: what it asks makes the others answer as if they had the sum.
#include "base/error.h"
#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

constexpr std::size_t kInquired = 1000;

struct Asked {
  explicit Asked(const CodecRow& row)
      : all(row, kInquired), one(row, kInquired), other(row, kInquired), values(gradient(kInquired, 3)) {
    const CoordinateQuery& inquiry = *one.codec->coordinate_query();
    question = std::make_unique<Bytes>(inquiry.question_bytes(kInquired), std::uint8_t{0xAA});
    for (Coder* coder : {&all, &one})
      coder->codec->encode(0, values, coder->wires[0].view(), Residual::Stay, coder->context);
    one.codec->absorb(0, values, one.wires[0].view(), one.context);
    inquiry.ask(question->view(), kInquired, one.context);
  }
  const CoordinateQuery& inquiry() const { return *other.codec->coordinate_query(); }
  Coder all, one, other;
  std::vector<float> values;
  std::unique_ptr<Bytes> question;
};

std::vector<CodecRow> rows_that_ask() {
  std::vector<CodecRow> rows;
  for (const CodecRow& row : codec_table())
    if (asks(row)) rows.push_back(row);
  return rows;
}

class Inquiries : public testing::TestWithParam<CodecRow> {};

TEST_P(Inquiries, MakeOthersAnswerAsIfTheyHadTheSum) {
  Asked asked(GetParam());
  asked.all.codec->absorb(0, asked.values, asked.all.wires[0].view(), asked.all.context);
  asked.all.codec->encode(1, asked.values, asked.all.wires[1].view(), Residual::Stay, asked.all.context);
  asked.inquiry().receive(asked.question->view(), kInquired, asked.other.context);
  asked.other.codec->encode(1, asked.values, asked.other.wires[1].view(), Residual::Stay,
                            asked.other.context);
  EXPECT_EQ(bytes_of(asked.other.wires[1].view()), bytes_of(asked.all.wires[1].view()));

  std::vector<std::uint32_t> places(asked.inquiry().entries(kInquired));
  std::vector<float> decoded(kInquired);
  ASSERT_TRUE(asked.one.codec->coordinate_query()->find(asked.other.wires[1].view(), places, kInquired,
                                                        asked.one.context));
  asked.one.codec->decode(asked.other.wires[1].view(), decoded, Into::Assign, asked.one.context);
  std::size_t entries = 0;
  for (std::uint32_t place : places) EXPECT_EQ(decoded[place], asked.values[place]) << place;
  for (float value : decoded) entries += value != 0;
  EXPECT_EQ(entries, places.size());
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
}

TEST_P(Inquiries, ThatWereDamagedAreRefused) {
  Asked asked(GetParam());
  const View question = asked.question->view();
  for (std::size_t i = 0; i < question.size(); ++i) {
    auto& byte = as_span<std::uint8_t>(question)[i];
    byte ^= 1;
    EXPECT_THROW(asked.inquiry().receive(question, kInquired, asked.other.context), Error) << i;
    byte ^= 1;
  }
  EXPECT_THROW(
      asked.inquiry().receive(question.slice(0, question.size() - 1), kInquired, asked.other.context), Error);
  EXPECT_THROW(asked.inquiry().receive(question, kInquired - 1, asked.other.context), Error);
  EXPECT_NO_THROW(asked.inquiry().receive(question, kInquired, asked.other.context));
}

TEST_P(Inquiries, AboutSumsThatAreNotFiniteSaySo) {
  Asked asked(GetParam());
  as_span<float>(asked.one.wires[0].view())[3] = NAN;
  asked.one.codec->absorb(0, asked.values, asked.one.wires[0].view(), asked.one.context);
  asked.one.codec->coordinate_query()->ask(asked.question->view(), kInquired, asked.one.context);
  asked.inquiry().receive(asked.question->view(), kInquired, asked.other.context);
  asked.other.codec->encode(1, asked.values, asked.other.wires[1].view(), Residual::Stay,
                            asked.other.context);
  for (float value : as_span<float>(asked.other.wires[1].view())) EXPECT_TRUE(std::isnan(value));
  std::vector<std::uint32_t> places(asked.inquiry().entries(kInquired));
  EXPECT_FALSE(asked.one.codec->coordinate_query()->find(asked.other.wires[1].view(), places, kInquired,
                                                         asked.one.context));
}

INSTANTIATE_TEST_SUITE_P(Codecs, Inquiries, testing::ValuesIn(rows_that_ask()), row_name);

}  // namespace
}  // namespace taxon::codec::test
