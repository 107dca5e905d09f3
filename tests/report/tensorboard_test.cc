#include "report/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace taxon::report {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  constexpr const char* kDigits = "0123456789abcdef";
  for (unsigned char c : bytes) text += kDigits[c >> 4], text += kDigits[c & 15];
  return text;
}

// CRC-32C of "123456789" is e3069283 (the catalogue's check value); TFRecord rotates by 15 and adds a
// constant.
TEST(TensorBoard, MaskedCrc32c) {
  constexpr std::uint32_t kCheck = 0xe3069283U;
  EXPECT_EQ(masked_crc32c("123456789"), ((kCheck >> 15) | (kCheck << 17)) + 0xa282ead8U);
  EXPECT_EQ(masked_crc32c(""), 0xa282ead8U);
}

// Encoded by hand from event.proto: wall_time = 1 (double, field 1), file_version (string, field 3).
TEST(TensorBoard, TheFirstRecordIsTheFileVersion) {
  std::string record = encode_file_version(1.0);
  std::string event =
      "09"
      "000000000000f03f"  // 1: fixed64 1.0
      "1a"
      "0d"
      "627261696e2e4576656e743a32";  // 3: 13 bytes "brain.Event:2"
  ASSERT_EQ(record.size(), 8 + 4 + 24 + 4U);
  EXPECT_EQ(hex(record.substr(0, 8)), "1800000000000000");
  EXPECT_EQ(hex(record.substr(12, 24)), event);
}

// wall_time = 2, step = 300, summary { value { tag: "a/b", simple_value: 0.5 } }.
TEST(TensorBoard, AScalarsBytes) {
  std::string record = encode_scalars(2.0, 300, {{"a/b", 0.5}});
  std::string event =
      "09"
      "0000000000000040"  // 1: fixed64 2.0
      "10"
      "ac02"  // 2: varint 300
      "2a"
      "0c"  // 5: summary of 12 bytes
      "0a"
      "0a"  //   1: value of 10 bytes
      "0a"
      "03"
      "612f62"  //     1: tag "a/b"
      "15"
      "0000003f";  //     2: fixed32 0.5
  EXPECT_EQ(hex(record.substr(12, record.size() - 16)), event);
}

// --- a reader of its own, written from the formats' descriptions -----------------------------------------

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  std::vector<Scalar> scalars;
};

class Wire {
 public:
  explicit Wire(std::string_view bytes) : bytes_(bytes) {}
  bool at_end() const { return bytes_.empty(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view bytes() { return take(varint()); }
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) throw std::runtime_error("cut short");
    std::string_view head = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return head;
  }

 private:
  std::string_view bytes_;
};

Scalar decode_value(std::string_view bytes) {
  Scalar scalar;
  for (Wire wire(bytes); !wire.at_end();) {
    switch (wire.varint()) {
      case 1 << 3 | 2:
        scalar.tag = wire.bytes();
        break;
      case 2 << 3 | 5:
        scalar.value = wire.fixed<float>();
        break;
      default:
        ADD_FAILURE() << "unknown field of Value";
    }
  }
  return scalar;
}

Event decode_event(std::string_view bytes) {
  Event event;
  for (Wire wire(bytes); !wire.at_end();) {
    switch (wire.varint()) {
      case 1 << 3 | 1:
        event.wall_time = wire.fixed<double>();
        break;
      case 2 << 3 | 0:
        event.step = static_cast<std::int64_t>(wire.varint());
        break;
      case 3 << 3 | 2:
        event.file_version = wire.bytes();
        break;
      case 5 << 3 | 2:
        for (Wire summary(wire.bytes()); !summary.at_end();) {
          EXPECT_EQ(summary.varint(), 1U << 3 | 2);
          event.scalars.push_back(decode_value(summary.bytes()));
        }
        break;
      default:
        ADD_FAILURE() << "unknown field of Event";
    }
  }
  return event;
}

std::vector<Event> decode_file(std::string_view file) {
  std::vector<Event> events;
  for (Wire wire(file); !wire.at_end();) {
    std::string_view length = wire.take(8);
    EXPECT_EQ(wire.fixed<std::uint32_t>(), masked_crc32c(length));
    std::string_view data = wire.take(Wire(length).fixed<std::uint64_t>());
    EXPECT_EQ(wire.fixed<std::uint32_t>(), masked_crc32c(data));
    events.push_back(decode_event(data));
  }
  return events;
}

TEST(TensorBoard, AFileReadsBackAsWritten) {
  std::string long_tag(300, 'x');
  std::string file = encode_file_version(1.7e9) +
                     encode_scalars(1.7e9 + 0.25, 10, {{"loss/train", 0.1}, {"accuracy/test", 0.9}}) +
                     encode_scalars(1.7e9 + 1, std::int64_t{1} << 40, {{long_tag, -3}}) +
                     encode_scalars(1.7e9 + 2, 0, {});
  std::vector<Event> events = decode_file(file);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1.7e9);
  EXPECT_EQ(events[1].step, 10);
  EXPECT_EQ(events[1].wall_time, 1.7e9 + 0.25);
  ASSERT_EQ(events[1].scalars.size(), 2U);
  EXPECT_EQ(events[1].scalars[0].tag, "loss/train");
  EXPECT_EQ(events[1].scalars[0].value, 0.1F);
  EXPECT_EQ(events[1].scalars[1].tag, "accuracy/test");
  EXPECT_EQ(events[2].step, std::int64_t{1} << 40);
  EXPECT_EQ(events[2].scalars.at(0).tag, long_tag);
  EXPECT_TRUE(events[3].scalars.empty());
}

TEST(TensorBoard, KeepsNumbersThatAreNone) {
  auto events = decode_file(encode_scalars(0, 1, {{"a", std::nan("")}, {"b", HUGE_VAL}}));
  EXPECT_TRUE(std::isnan(events.at(0).scalars.at(0).value));
  EXPECT_EQ(events.at(0).scalars.at(1).value, HUGE_VAL);
}

TEST(TensorBoard, FileNamesAreRecognised) {
  EXPECT_EQ(event_file_name(1.7e9, "node1"), "events.out.tfevents.1700000000.node1");
}

}  // namespace
}  // namespace taxon::report
