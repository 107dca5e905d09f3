#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/wire.h"

namespace taxon::codec::fuzz {

/// Memory of exactly so many bytes, aligned as wires are, so that AddressSanitizer sees what lies behind.
class Exact {
 public:
  explicit Exact(std::size_t size) : size_(size) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, std::max<std::size_t>(1, size)) == 0) memory_.reset(memory);
    std::memset(memory_.get(), 0, std::max<std::size_t>(1, size));
  }
  View view() const { return {static_cast<std::byte*>(memory_.get()), size_}; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::size_t size_;
  std::unique_ptr<void, Free> memory_;
};

/// The codec of a case: by its name and a line feed at the beginning, as the files of the corpus have it so
/// that they stay what they are when the table changes, or else by the first byte.
inline std::size_t row_of(std::span<const std::uint8_t>& bytes) {
  constexpr std::size_t kLongestName = 32;
  const auto end = std::find(
      bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), kLongestName)),
      static_cast<std::uint8_t>('\n'));
  const std::string name(bytes.begin(), end);
  for (std::size_t row = 0; row < codec_table().size(); ++row)
    if (codec_table()[row].name == name && bytes.size() >= name.size() + 4) {
      bytes = bytes.subspan(name.size());  // the line feed is in the first byte's place
      return row;
    }
  return bytes[0] % codec_table().size();
}

/// What a message went through, from the bytes of a fuzzer: four of the case, then four for each edit.
struct Case {
  enum Flag : std::uint8_t {
    kReseal = 1,    // the checksum is right in the end: only the body was forged
    kAdd = 2,       // decoded values are added
    kTruncate = 4,  // the last edit's place is the message's new size
    kMerge = 8,     // merged, or its entries cleared, instead of decoded; of codecs that ask: a question
    kFill = 16,     // all of the body is edits
  };
  std::size_t row = 0, count = 1;
  std::uint8_t flags = 0;
  std::span<const std::uint8_t> edits;

  explicit Case(std::span<const std::uint8_t> bytes)
      : row(row_of(bytes)),
        count(1 + (bytes[1] + 256U * bytes[2]) % 1500),
        flags(bytes[3]),
        edits(bytes.subspan(4)) {}
  Case undamaged() const {
    Case whole = *this;
    whole.flags = 0;
    whole.edits = {};
    return whole;
  }
  bool has(Flag flag) const { return (flags & flag) != 0; }
};

inline bool is_sealed(const Codec& codec) { return codec.rounds().front().algebra != Algebra::Linear; }

/// A message of the case's codec as it was sent, and then damaged.
class Message {
 public:
  Message(const Codec& codec, const Case& c, const CodecContext& context) : codec_(codec) {
    std::vector<float> values(c.count);
    for (std::size_t i = 0; i < c.count; ++i)
      values[i] = std::sin(static_cast<float>(i + c.row)) * static_cast<float>(i % 17);
    for (std::size_t r = 0; r < codec.rounds().size(); ++r) {
      if (r > 0) codec.absorb(static_cast<int>(r) - 1, values, bytes_->view(), context);
      bytes_ = std::make_unique<Exact>(codec.wire_bytes(static_cast<int>(r), {c.count, context.pieces}));
      codec.encode(static_cast<int>(r), values, bytes_->view(), Residual::Stay, context);
      if (!is_sealed(codec)) damage(c);  // sums of either round may be anything
    }
    if (asks(codec, c)) {
      bytes_ = std::make_unique<Exact>(codec.part_query()->question_bytes(c.count));
      codec.part_query()->ask(bytes_->view(), c.count, context);
    }
    if (is_sealed(codec)) damage(c);
  }
  /// The message is a question of an owner.
  static bool asks(const Codec& codec, const Case& c) { return c.has(Case::kMerge) && codec.part_query(); }
  View view() const { return bytes_->view(); }

 private:
  void damage(const Case& c) {
    const View wire = bytes_->view();
    auto bytes = as_span<std::uint8_t>(wire);
    const bool reseal = c.has(Case::kReseal) && is_sealed(codec_);
    Head head;
    if (reseal) std::memcpy(&head, wire.data(), sizeof(head));
    const std::size_t first = reseal || c.has(Case::kFill) ? std::min(sizeof(Head), bytes.size()) : 0;
    auto body = bytes.subspan(is_sealed(codec_) ? first : 0);
    std::size_t place = 0;
    for (std::size_t e = 0; e + 4 <= c.edits.size() && !body.empty(); e += 4) {
      place = (c.edits[e] + 256U * c.edits[e + 1]) % body.size();
      body[place] =
          c.edits[e + 2] != 0 ? static_cast<std::uint8_t>(body[place] ^ c.edits[e + 2]) : c.edits[e + 3];
    }
    if (c.has(Case::kFill) && !c.edits.empty())
      for (std::size_t i = 0; i < body.size(); ++i)
        body[i] = static_cast<std::uint8_t>(c.edits[i % c.edits.size()] + i / c.edits.size());
    if (reseal) seal(wire, head);
    if (c.has(Case::kTruncate) && is_sealed(codec_)) {
      auto shorter = std::make_unique<Exact>(place);
      std::memcpy(shorter->view().data(), wire.data(), place);
      bytes_ = std::move(shorter);
    }
  }
  const Codec& codec_;
  std::unique_ptr<Exact> bytes_;
};

enum class Outcome { Decoded, Refused };

/// Gives a damaged message to its codec. Whatever it is, nothing outside its memory is touched, and what is
/// refused is Error{Transport}; anything else is thrown on. REQUIRES: at least 4 bytes.
inline Outcome feed(std::span<const std::uint8_t> bytes) {
  const Case c(bytes);
  const CodecRow& row = codec_table()[c.row];
  const auto codec = row.make({{"density", 0.1}, {"columns", 0.2}, {"block", 64}});
  const Piece matrix{{0, c.count}, 20};
  std::vector<float> lasting(codec->lasts() ? c.count : 0);
  const Exact scratch(codec->scratch_bytes({c.count, {&matrix, 1}}));
  const CodecContext context{scratch.view(), 1, 2, best_isa(), {&matrix, 1}, lasting};
  const Message message(*codec, c, context);
  const Exact memory(c.count * sizeof(float));
  auto values = as_span<float>(memory.view());
  try {
    if (c.has(Case::kMerge) && codec->rounds().front().algebra == Algebra::Mergeable) {
      const Message whole(*codec, c.undamaged(), context);
      codec->merge(whole.view(), message.view(), values, context);
    } else if (Message::asks(*codec, c)) {
      codec->part_query()->receive(message.view(), c.count, context);
      const Exact answer(codec->wire_bytes(1, {c.count, context.pieces}));
      codec->encode(1, values, answer.view(), Residual::Keep, context);
    } else if (c.has(Case::kMerge) && row.sends_entries && is_sealed(*codec)) {
      codec->clear(message.view(), values, context);
    } else {
      codec->decode(message.view(), values, c.has(Case::kAdd) ? Into::Add : Into::Assign, context);
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Transport) throw;
    return Outcome::Refused;
  }
  return Outcome::Decoded;
}

}  // namespace taxon::codec::fuzz
