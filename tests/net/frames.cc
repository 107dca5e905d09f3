#include "net/frames.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "net/tcp/inbound.h"

namespace taxon::test {
namespace {

using namespace net;

constexpr std::uint32_t kEpoch = 7;
constexpr std::uint32_t kSignals = 4;
constexpr std::size_t kRegion = 512, kFence = 64, kFragment = 96;
constexpr std::uint64_t kLargest = 1 << 20;
/// A reader's: small, so that frames lie across its end, and cheap to make.
constexpr std::size_t kBuffer = 256;
constexpr std::byte kUntouched{0xa5};

/// Bytes of the input, as long as there are any; then zeros.
class Source {
 public:
  explicit Source(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  /// Mostly small, sometimes anything.
  std::uint64_t number() {
    const std::uint8_t small = byte();
    return small < 224 ? small : small < 240 ? std::uint64_t{small} << 8 : word();
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

class Bench {
 public:
  Bench() : memory_(kRegion + 2 * kFence, kUntouched) {
    regions_.add(View(memory_.data() + kFence, kRegion));
    // Two connections of rank 1, one of rank 2.
    for (int rank : {1, 1, 2})
      readers_.push_back({tcp::FrameReader(inbox_, Rank(rank), kFragment, kBuffer), {}});
  }

  void run(Source& input) {
    while (!input.empty() && !inbox_.broken()) {
      const std::uint8_t choice = input.byte();
      Line& line = readers_[(choice >> 1) % readers_.size()];
      if ((choice & 1) == 0)
        for (std::size_t count = input.byte(); count > 0; --count)
          line.coming.push_back(static_cast<std::byte>(input.byte()));
      else
        add_frame(input, line, choice);
      deliver();
    }
    completions_.run();
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    TAXON_CHECK(std::all_of(memory_.begin(), memory_.begin() + kFence, untouched) &&
                    std::all_of(memory_.end() - kFence, memory_.end(), untouched),
                "a frame wrote beside a region");
  }

 private:
  struct Line {
    tcp::FrameReader reader;
    std::vector<std::byte> coming;
  };

  void add_frame(Source& input, Line& line, std::uint8_t choice) {
    WireHeader header;
    header.epoch = (choice & 0x80) != 0 && input.byte() == 0 ? kEpoch + 1 : kEpoch;
    const std::size_t at = static_cast<std::size_t>(&line - readers_.data());
    header.source = (choice & 0x40) != 0 ? static_cast<std::int32_t>(input.word()) : at == 2 ? 2 : 1;
    header.kind = static_cast<WireKind>((choice & 0x20) != 0 ? input.byte() : choice >> 3 & 1);
    header.type = input.byte() % 8;
    header.flags = input.byte();
    header.tag.unit = input.byte() % 4;
    header.signal = static_cast<std::uint32_t>(input.number() % (kSignals + 2));
    header.order = (choice & 0x10) != 0 ? input.number() : orders_[static_cast<std::size_t>(at == 2)];
    header.size = input.number();
    if (header.size > kLargest) header.size |= std::uint64_t{1} << 60;  // refused, and not tried to be had
    header.offset = (choice & 0x10) != 0 ? input.number() : 0;
    header.address =
        reinterpret_cast<std::uint64_t>(memory_.data()) + kFence + input.number() - input.byte() % 8;
    header.value = input.number();
    seal(header);
    const auto* begin = reinterpret_cast<const std::byte*>(&header);
    line.coming.insert(line.coming.end(), begin, begin + sizeof header);
    const std::size_t rest = header.offset <= header.size ? header.size - header.offset : 0;
    line.coming.insert(line.coming.end(), std::min(rest, kFragment), std::byte{1});
    if (rest <= kFragment) ++orders_[static_cast<std::size_t>(at == 2)];
  }

  /// As the network does: what has come goes where the reader wants it, until nothing moves.
  void deliver() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Line& line : readers_) {
        if (line.reader.waits() && !line.reader.resume()) continue;
        while (!line.coming.empty() && !inbox_.broken()) {
          iovec pieces[2];
          const int count = line.reader.places(pieces);
          std::size_t given = 0;
          for (int i = 0; i < count && given < line.coming.size(); ++i) {
            const std::size_t part = std::min(pieces[i].iov_len, line.coming.size() - given);
            std::memcpy(pieces[i].iov_base, line.coming.data() + given, part);
            given += part;
          }
          line.coming.erase(line.coming.begin(), line.coming.begin() + static_cast<std::ptrdiff_t>(given));
          moved = true;
          if (!line.reader.came(given)) break;
        }
      }
    }
  }

  std::vector<std::byte> memory_;
  alignas(64) std::byte page_memory_[SignalPage::bytes_for(kSignals)] = {};
  RegionTable regions_;
  Completions completions_;
  Inbox inbox_{{.self = Rank(0), .world_size = 3, .epoch = kEpoch, .signals = kSignals},
               completions_,
               regions_,
               SignalPage(View(page_memory_, sizeof page_memory_))};
  std::vector<Line> readers_;
  std::array<std::uint64_t, 2> orders_{};
};

}  // namespace

void feed_frames(std::span<const std::uint8_t> input) {
  Source source(input);
  Bench().run(source);
}

}  // namespace taxon::test
