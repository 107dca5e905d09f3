// Codecs whose parts' owners read the first round alone: what they ask, and what the others answer.
#include "base/error.h"
#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

constexpr std::size_t kAsked = 2000, kHeavy = 30;
constexpr int kMembers = 3;

std::vector<CodecRow> rows_that_ask_owners() {
  std::vector<CodecRow> rows;
  for (const CodecRow& row : codec_table())
    if (row.make(options_of())->part_query()) rows.push_back(row);
  return rows;
}

/// Noise that differs from member to member, and values that are heavy in the sum alone.
std::vector<float> of_member(int member) {
  std::vector<float> values = gradient(kAsked, static_cast<std::uint64_t>(member));
  for (float& value : values) value *= 1e-3F;
  for (std::size_t i = 0; i < kHeavy; ++i) values[i * 61] = 5 + static_cast<float>(i % 7);
  return values;
}

class Askings : public testing::TestWithParam<CodecRow> {
 protected:
  Askings() {
    for (int m = 0; m < kMembers; ++m) {
      members.emplace_back(GetParam(), kAsked);
      values.push_back(of_member(m));
      encode(m);
    }
  }
  void encode(int m) {
    Coder& member = members[static_cast<std::size_t>(m)];
    member.codec->encode(0, values[static_cast<std::size_t>(m)], member.wires[0].view(), Residual::Stay,
                         member.context);
  }
  /// The first member's question from the sum.
  View ask() {
    Coder& owner = members.front();
    asking().begin(kAsked, owner.context);
    for (Coder& member : members) asking().add(member.wires[0].view(), kAsked, owner.context);
    question = Bytes(asking().question_bytes(kAsked), 0xAA);
    asking().ask(question.view(), kAsked, owner.context);
    return question.view();
  }
  const PartQuery& asking() const { return *members.front().codec->part_query(); }
  Coder& other() { return members.back(); }

  std::vector<Coder> members;
  std::vector<std::vector<float>> values;
  Bytes question{0};
};

TEST_P(Askings, AreAboutWhatIsHeavyInTheSum) {
  asking().receive(ask(), kAsked, other().context);
  std::vector<float> rest = values.back(), decoded(kAsked);
  ASSERT_TRUE(other().codec->encode(1, rest, other().wires[1].view(), Residual::Keep, other().context));
  other().codec->decode(other().wires[1].view(), decoded, Into::Assign, other().context);
  for (std::size_t i = 0; i < kHeavy; ++i)
    EXPECT_NEAR(decoded[i * 61], values.back()[i * 61], 11.0 / 14 + 1e-3) << i;
  // What was not asked for stays as it was; of the rest the memory has what the wire lacks.
  std::size_t asked = 0;
  for (std::size_t i = 0; i < kAsked; ++i) {
    ASSERT_NEAR(decoded[i] + rest[i], values.back()[i], 1e-5) << i;
    asked += rest[i] != values.back()[i];
  }
  EXPECT_LE(asked, static_cast<std::size_t>(0.05 * kAsked));
}

TEST_P(Askings, ThatWereDamagedAreRefused) {
  const View asked = ask();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    auto& byte = as_span<std::uint8_t>(asked)[i];
    byte ^= 1;
    EXPECT_THROW(asking().receive(asked, kAsked, other().context), Error) << i;
    byte ^= 1;
  }
  EXPECT_THROW(asking().receive(asked.slice(0, asked.size() - 1), kAsked, other().context), Error);
  EXPECT_THROW(asking().receive(asked, kAsked - 1, other().context), Error);
  EXPECT_NO_THROW(asking().receive(asked, kAsked, other().context));
}

TEST_P(Askings, OfSumsThatAreNotFiniteSaySo) {
  values[1][17] = NAN;
  encode(1);
  asking().receive(ask(), kAsked, other().context);
  const std::vector<float> before = values.back();
  std::vector<float> decoded(kAsked);
  EXPECT_FALSE(
      other().codec->encode(1, values.back(), other().wires[1].view(), Residual::Keep, other().context));
  EXPECT_EQ(bits_of(values.back()), bits_of(before));
  other().codec->decode(other().wires[1].view(), decoded, Into::Assign, other().context);
  for (float value : decoded) ASSERT_TRUE(std::isnan(value));
}

TEST_P(Askings, HaveAnswersAboutAsManyValuesAlone) {
  asking().receive(ask(), kAsked, other().context);
  other().codec->encode(1, values.back(), other().wires[1].view(), Residual::Stay, other().context);
  std::vector<float> fewer(kAsked - 1);
  EXPECT_THROW(other().codec->decode(other().wires[1].view(), fewer, Into::Assign, other().context), Error);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Askings, testing::ValuesIn(rows_that_ask_owners()), row_name);

}  // namespace
}  // namespace taxon::codec::test
