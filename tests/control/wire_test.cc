#include "control/wire.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "control/bytes.h"

namespace taxon::control {
namespace {

std::vector<std::byte> frame(std::uint32_t head, std::uint32_t body, const std::string& rest) {
  std::vector<std::byte> bytes;
  for (std::uint32_t size : {head, body})
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<std::byte>((size >> shift) & 0xff));
  auto tail = bytes_of(rest);
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  return bytes;
}

TEST(Wire, AMessageSurvives) {
  Message message{{{"type", "hello"}, {"rank", 3}}, bytes_of("\0blob")};
  auto packet = encode(message);
  auto decoded = decode(*packet);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->used, packet->size());
  EXPECT_EQ(decoded->message.head, message.head);
  EXPECT_EQ(decoded->message.body, message.body);
}

TEST(Wire, EveryPrefixIsOnlyIncomplete) {
  auto packet = encode(Message{{{"type", "waits"}}, bytes_of("0123456789")});
  for (std::size_t n = 0; n < packet->size(); ++n) EXPECT_FALSE(decode(std::span(*packet).first(n))) << n;
}

TEST(Wire, TextThatIsNotUtf8IsRepairedNotFatal) {
  auto packet = encode(Message{{{"type", "abort"}, {"message", "file \xff\xfe"}}, {}});
  EXPECT_TRUE(decode(*packet));
}

TEST(Wire, AClippedTextIsAsShortAsItMustBeWhenItArrives) {
  const auto arrives = [](const std::string& text) {
    auto packet = encode(Message{{{"type", "abort"}, {"message", clipped(text, 20)}}, {}});
    return decode(*packet)->message.head.at("message").get<std::string>();
  };
  EXPECT_EQ(arrives("short"), "short");
  for (const char* piece : {"a", "\xc3\xa4", "\xe2\x82\xac", "\xe4", "\xff\xfe"}) {
    std::string text;
    for (int i = 0; i < 21; ++i) text += piece;
    EXPECT_LE(arrives(text).size(), 20u) << piece;
    EXPECT_TRUE(arrives(text).ends_with("...")) << piece;
    EXPECT_EQ(arrives(arrives(text)), arrives(text)) << piece;
  }
}

TEST(Wire, BadFramesAreRefused) {
  EXPECT_THROW(decode(frame(0xffffffff, 0, "")), ProtocolError);
  EXPECT_THROW(decode(frame(2, 0xffffffff, "{}")), ProtocolError);
  EXPECT_THROW(decode(frame(2, 0, "{}")), ProtocolError);
  EXPECT_THROW(decode(frame(4, 0, "nope")), ProtocolError);
  EXPECT_THROW(decode(frame(0, 0, "")), ProtocolError);
  EXPECT_THROW(decode(frame(12, 0, R"({"type": 12})")), ProtocolError);
  EXPECT_THROW(decode(frame(100'000, 0, std::string(100'000, '['))), ProtocolError);
}

TEST(Wire, RandomBytesNeverDecodeToNonsense) {
  Rng rng(7, "wire fuzz");
  auto valid =
      encode(Message{{{"type", "event"}, {"event", {{"event", "lost"}, {"rank", 1}}}}, bytes_of("x")});
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = *valid;
    for (int flips = 0; flips < 3; ++flips)
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
    try {
      if (auto decoded = decode(bytes)) {
        EXPECT_TRUE(decoded->message.head.at("type").is_string());
        EXPECT_LE(decoded->used, bytes.size());
        event_from_json(decoded->message.head.value("event", nlohmann::json::object()), 4);
      }
    } catch (const ProtocolError&) {
    }
  }
}

TEST(Wire, PartsComeBackByTheirSizes) {
  std::vector<std::vector<std::byte>> parts{bytes_of("ab"), {}, bytes_of("cde")};
  Packed packed = pack(parts);
  EXPECT_EQ(unpack(packed.sizes, packed.bytes), parts);
  EXPECT_THROW(unpack({3, 3}, packed.bytes), ProtocolError);
  EXPECT_THROW(unpack({3}, packed.bytes), ProtocolError);
}

TEST(Wire, EveryEventSurvives) {
  std::vector<Event> events{PeerLost{Rank(1), "gone"},
                            Departed{Rank(1), "gone too"},
                            Aborted{Rank(2), ErrorKind::Data, "cut short"},
                            Silent{Rank(3), 5.5},
                            Returned{Rank(3), 9},
                            DeadlinePassed{Rank(4), 600},
                            StopRequested{Rank(0)},
                            HangReport{{"a", "b"}, {Rank(2)}}};
  for (const Event& event : events) {
    Event back = event_from_json(to_json(event), 5);
    EXPECT_EQ(back.index(), event.index());
    EXPECT_EQ(describe(back), describe(event));
  }
  EXPECT_THROW(event_from_json({{"event", "strange"}}, 5), ProtocolError);
  for (const nlohmann::json& rank :
       nlohmann::json::parse(R"([-1, 5, 1e300, 1.5, "1", null, true, [1], 18446744073709551615])"))
    EXPECT_THROW(event_from_json({{"event", "stop"}, {"rank", rank}}, 5), ProtocolError) << rank;
  EXPECT_EQ(kind_from_text("checkpoint"), ErrorKind::Checkpoint);
  EXPECT_EQ(kind_from_text("of a later version"), ErrorKind::Internal);
}

TEST(Wire, ValuesAreOfTheirTypeAndWithinTheirBounds) {
  const auto object = nlohmann::json::parse(
      R"({"n": 7, "f": 7.0, "s": "text", "t": -0.5, "l": [1, 2], "m": [1, -2], "u": 18446744073709551615})");
  EXPECT_EQ(integer_at(object, "n", 0, 7), 7);
  EXPECT_EQ(text_at(object, "s", 4), "text");
  EXPECT_EQ(sizes_at(object, "l", 2), (std::vector<std::size_t>{1, 2}));
  EXPECT_THROW(integer_at(object, "n", 0, 6), ProtocolError);
  EXPECT_THROW(integer_at(object, "f", 0, 9), ProtocolError);
  EXPECT_THROW(integer_at(object, "u", 0, 9), ProtocolError);
  EXPECT_THROW(integer_at(object, "missing", 0, 9), ProtocolError);
  EXPECT_THROW(text_at(object, "s", 3), ProtocolError);
  EXPECT_THROW(seconds_at(object, "t"), ProtocolError);
  EXPECT_THROW(seconds_at({{"t", 1e308}}, "t"), ProtocolError);  // that nobody could say in hours
  EXPECT_THROW(sizes_at(object, "l", 3), ProtocolError);
  EXPECT_THROW(sizes_at(object, "m", 2), ProtocolError);
  EXPECT_THROW(text_at(nlohmann::json::array(), "s", 3), ProtocolError);
}

TEST(Event, FatalOnesBecomeErrorsThatBlameARank) {
  Error lost = error_of(PeerLost{Rank(2), "its connection closed"});
  EXPECT_EQ(lost.kind(), ErrorKind::PeerLost);
  EXPECT_EQ(lost.context().rank, Rank(2));
  // Rank 1's own exit code is 65; whoever hears of it lost a peer.
  EXPECT_EQ(error_of(Aborted{Rank(1), ErrorKind::Data, "x"}).kind(), ErrorKind::PeerLost);
  EXPECT_EQ(error_of(Aborted{Rank(1), ErrorKind::Diverged, "x"}).kind(), ErrorKind::Diverged);
  EXPECT_EQ(error_of(DeadlinePassed{Rank(1), 600}).kind(), ErrorKind::Deadline);
  EXPECT_FALSE(is_fatal(Silent{Rank(1), 5}));
}

}  // namespace
}  // namespace taxon::control
