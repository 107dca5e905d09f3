// The receiving half against fragments that no healthy peer sends.
#include "net/wire/inbox.h"

#include <gmock/gmock.h>

#include "net/loopback/loopback.h"
#include "support/errors.h"
#include "task/poll_loop.h"

namespace taxon::net {
namespace {

class InboxTest : public testing::Test {
 protected:
  InboxTest() { regions.add(View(target.data(), target.size())); }

  WireHeader header(std::uint64_t order, std::uint64_t size, std::uint64_t offset = 0) {
    WireHeader header;
    header.epoch = 4;
    header.source = 1;
    header.order = order;
    header.size = size;
    header.offset = offset;
    header.type = static_cast<std::uint8_t>(DType::UInt8);
    return header;
  }
  void arrive(WireHeader header, const std::string& fragment) {
    seal(header);
    arrive_unsealed(header, fragment);
  }
  void arrive_unsealed(const WireHeader& header, const std::string& fragment) {
    inbox.arrived(ConstView(reinterpret_cast<const std::byte*>(&header), sizeof header),
                  ConstView(reinterpret_cast<const std::byte*>(fragment.data()), fragment.size()));
  }
  std::string broken() {
    if (!inbox.broken()) return {};
    try {
      std::rethrow_exception(inbox.broken());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Transport);
      return error.what();
    }
  }

  std::vector<std::byte> target = std::vector<std::byte>(100);
  alignas(64) std::byte page_memory[SignalPage::bytes_for(8)] = {};
  SignalPage page{View(page_memory, sizeof page_memory)};
  RegionTable regions;
  Completions completions;
  Inbox inbox{{.self = Rank(0), .world_size = 2, .epoch = 4, .signals = 8}, completions, regions, page};
};

TEST_F(InboxTest, PutsFragmentsTogetherAndThenRaisesTheSignal) {
  WireHeader put = header(0, 6);
  put.kind = WireKind::Put;
  put.address = reinterpret_cast<std::uint64_t>(target.data()) + 10;
  put.signal = 7;
  put.value = 3;
  arrive(put, "abcd");
  EXPECT_EQ(page.value(7), 0u);
  put.offset = 4;
  arrive(put, "ef");
  EXPECT_EQ(page.value(7), 3u);
  EXPECT_EQ(target[15], std::byte{'f'});
  EXPECT_EQ(broken(), "");
}

TEST_F(InboxTest, ThrowsAwayMessagesOfAnotherLife) {
  WireHeader old = header(17, 3);
  old.epoch = 3;
  arrive(old, "old");
  EXPECT_EQ(inbox.stale(), 1u);
  EXPECT_EQ(inbox.bytes_received(), 0u);
  arrive(header(0, 3), "new");
  EXPECT_EQ(inbox.bytes_received(), 3u);
  EXPECT_EQ(broken(), "");
}

TEST_F(InboxTest, NoticesDamagedHeaders) {
  WireHeader damaged = header(0, 3);
  seal(damaged);
  damaged.size = 2;
  arrive_unsealed(damaged, "ab");
  EXPECT_THAT(broken(), testing::HasSubstr("a damaged header"));
}

TEST_F(InboxTest, ThrowsAwayForeignBytes) {
  for (std::size_t size = 0; size <= sizeof(WireHeader); ++size)
    inbox.arrived(ConstView(page_memory, size), ConstView(page_memory, size));
  EXPECT_EQ(inbox.stale(), sizeof(WireHeader) + 1);
  EXPECT_EQ(broken(), "");
}

TEST_F(InboxTest, ThrowsAwayOtherVersions) {
  WireHeader other = header(0, 0);
  ++other.magic;
  arrive(other, "");
  EXPECT_EQ(inbox.stale(), 1u);
  EXPECT_EQ(broken(), "");
}

// A stranger may say anything in a header; without the job's number it counts for nothing.
TEST_F(InboxTest, LooksAtNothingOfStrangers) {
  for (int kind = 0; kind < 256; ++kind) {
    WireHeader foreign = header(0, ~std::uint64_t{0}, ~std::uint64_t{0});
    foreign.epoch = 5;
    foreign.source = -1;
    foreign.kind = static_cast<WireKind>(kind);
    foreign.flags = 0xffff;
    foreign.signal = 0xffffffff;
    arrive(foreign, "abc");
  }
  EXPECT_EQ(inbox.stale(), 256u);
  EXPECT_EQ(broken(), "");
  arrive(header(0, 3), "new");
  EXPECT_EQ(inbox.bytes_received(), 3u);
}

TEST_F(InboxTest, NoticesDamagedPayloads) {
  WireHeader checked = header(0, 3);
  checked.flags = kPayloadChecksum;
  std::string payload = "abc";
  checked.payload_checksum = checksum_of(ConstView(reinterpret_cast<const std::byte*>(payload.data()), 3));
  arrive(checked, "abc");
  EXPECT_EQ(broken(), "");
  checked.order = 1;
  arrive(checked, "abd");
  EXPECT_THAT(broken(), testing::HasSubstr("a damaged payload"));
}

TEST_F(InboxTest, SaysWhoAskedAndWhoConfirmed) {
  WireHeader asking = header(0, 3);
  asking.flags = kConfirm;
  arrive(asking, "abc");
  EXPECT_THAT(inbox.take_asked(), testing::ElementsAre(Rank(1)));
  EXPECT_THAT(inbox.take_asked(), testing::IsEmpty());

  WireHeader confirmation = header(0, 0);
  confirmation.kind = WireKind::Confirmation;
  confirmation.value = 5;
  confirmation.address = 7;
  arrive(confirmation, "");
  const std::vector<Inbox::Confirmed> confirmed = inbox.take_confirmed();
  ASSERT_EQ(confirmed.size(), 1u);
  EXPECT_EQ(confirmed[0].by, Rank(1));
  EXPECT_EQ(confirmed[0].what.came, Duration(5));
  EXPECT_EQ(confirmed[0].what.share, 7);
  EXPECT_THAT(inbox.take_confirmed(), testing::IsEmpty());

  arrive(header(1, 3), "def");  // it took no place among the messages
  EXPECT_EQ(broken(), "");
}

TEST_F(InboxTest, RefusesItsOwnNameAndOthersThanWhoIsKnownToCall) {
  WireHeader confirmation = header(0, 0);
  confirmation.kind = WireKind::Confirmation;
  for (const bool known : {false, true}) {
    Inbox other({.self = Rank(0), .world_size = 3, .epoch = 4, .signals = 8}, completions, regions, page);
    confirmation.source = known ? 2 : 0;
    seal(confirmation);
    const ConstView bytes(reinterpret_cast<const std::byte*>(&confirmation), sizeof confirmation);
    WireHeader read;
    EXPECT_FALSE(other.accept(bytes, read, known ? std::optional(Rank(1)) : std::nullopt));
    EXPECT_THAT(other.take_confirmed(), testing::IsEmpty());
    EXPECT_THAT(test::message_of(other.broken()),
                testing::HasSubstr(known ? "another rank's name" : "an unknown source"));
  }
}

TEST_F(InboxTest, NoticesGaps) {
  arrive(header(0, 6), "abc");
  arrive(header(0, 6, 4), "ef");
  EXPECT_THAT(broken(), testing::HasSubstr("out of order"));
}

TEST_F(InboxTest, NoticesMoreThanWasAnnounced) {
  arrive(header(0, 2), "abc");
  EXPECT_THAT(broken(), testing::HasSubstr("out of order"));
}

// Nothing is written of what follows no order, wherever an open message might make it lie.
TEST_F(InboxTest, WritesNothingOfWhatIsOutOfOrder) {
  WireHeader put = header(0, 6);
  put.kind = WireKind::Put;
  put.address = reinterpret_cast<std::uint64_t>(target.data());
  arrive(put, "abc");
  put.size = 90;
  put.offset = 80;
  arrive(put, "xyz");
  EXPECT_THAT(broken(), testing::HasSubstr("out of order"));
  EXPECT_EQ(target[80], std::byte{0});
}

TEST_F(InboxTest, FragmentsOfSeveralWaysBeginInOrderAndEndInAny) {
  const auto put = [&](std::uint64_t order, std::uint64_t offset) {
    WireHeader one = header(order, 6, offset);
    one.kind = WireKind::Put;
    one.address = reinterpret_cast<std::uint64_t>(target.data()) + 10 * order;
    one.signal = static_cast<std::uint32_t>(order);
    one.value = 1;
    return one;
  };
  EXPECT_EQ(inbox.begin(put(0, 3), 3), Inbox::Turn::Later);
  EXPECT_EQ(inbox.begin(put(0, 0), 3), Inbox::Turn::Now);
  EXPECT_EQ(inbox.begin(put(1, 0), 6), Inbox::Turn::Later);
  EXPECT_EQ(inbox.begin(put(0, 3), 3), Inbox::Turn::Now);
  EXPECT_EQ(inbox.begin(put(1, 0), 6), Inbox::Turn::Now);
  inbox.end(put(1, 0), 6);
  inbox.end(put(0, 3), 3);
  EXPECT_EQ(page.value(1), 0u) << "a signal overtook an earlier put";
  inbox.end(put(0, 0), 3);
  EXPECT_EQ(page.value(0), 1u);
  EXPECT_EQ(page.value(1), 1u);
  EXPECT_EQ(broken(), "");
}

TEST_F(InboxTest, RefusesPutsOutsideOfRegions) {
  WireHeader put = header(0, 8);
  put.kind = WireKind::Put;
  put.address = reinterpret_cast<std::uint64_t>(target.data()) + 93;
  arrive(put, "abcdefgh");
  EXPECT_THAT(broken(), testing::HasSubstr("does not exist"));
  EXPECT_EQ(target, std::vector<std::byte>(100));
  EXPECT_EQ(page.value(0), 0u);
}

TEST_F(InboxTest, RefusesSignalsThatDoNotExist) {
  WireHeader put = header(0, 0);
  put.kind = WireKind::Put;
  put.signal = 8;
  arrive(put, "");
  EXPECT_THAT(broken(), testing::HasSubstr("does not exist"));
}

}  // namespace
}  // namespace taxon::net
