#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "codec/wire.h"
#include "support/passing_transport.h"

namespace taxon::test {

/// Messages of one kind: they say the same sort of thing.
struct MessageKind {
  net::Operation operation = net::Operation::User;
  std::uint32_t unit = 0;     // of those that are no buckets; 0: a bucket
  std::uint32_t message = 0;  // of protocols, whose rounds tell messages apart
  friend auto operator<=>(const MessageKind&, const MessageKind&) = default;

  static MessageKind of(const net::Tag& tag) {
    const bool reserved = tag.unit >= net::kFirstReservedUnit;
    const bool protocol = tag.operation == net::Operation::Serve || tag.operation == net::Operation::User ||
                          tag.operation == net::Operation::ShareRegions;
    return {tag.operation, reserved ? tag.unit : 0, protocol ? tag.round : 0};
  }
};
using MessageCounts = std::map<MessageKind, std::uint64_t>;

/// What one rank lies about: from the `first`-th message of a kind, in so many.
struct Lie {
  MessageKind kind;
  std::uint64_t first = 0, count = 1;
  std::uint64_t seed = 0;                                  // of what becomes of them; the same of all
  std::function<void(std::vector<std::byte>&)> edit = {};  // what becomes of them, in place of chance
};

/// A transport that changes what one rank tells the others, and hands everything else on. What it changes may
/// be damaged (bits, words, lengths), another number that its receiver might believe, something told before,
/// or a codec's wire whose checksum is right.
class LyingTransport final : public PassingTransport {
 public:
  /// No lie: it counts what there is to lie about.
  explicit LyingTransport(net::Transport& inner, const Lie* lie = nullptr)
      : PassingTransport(inner), lie_(lie) {}
  ~LyingTransport() override {
    for (Told& told : told_)
      if (!told.op->done()) {
        inner_.forget(*told.op);
        told.op->complete();
      }
  }
  using PassingTransport::start;
  void start(net::SendOp& op) override {
    const MessageKind kind = MessageKind::of(op.tag);
    const std::uint64_t number = counts_[kind]++;
    const bool lies = lie_ != nullptr && kind == lie_->kind && number >= lie_->first &&
                      number < lie_->first + lie_->count && !op.payload.is_phantom();
    if (!lies) {
      if (lie_ != nullptr && kind == lie_->kind) remember(op.payload);
      return inner_.start(op);
    }
    Told& told = told_.emplace_back();
    told.bytes.assign(op.payload.data(), op.payload.data() + op.payload.size());
    lie_->edit ? lie_->edit(told.bytes) : change(told.bytes);
    told.op = std::make_unique<net::SendOp>(inner_, op.peer, op.tag,
                                            ConstView(told.bytes.data(), told.bytes.size()), op.type);
    op.complete();
  }
  const MessageCounts& counts() const { return counts_; }
  std::size_t lies() const { return told_.size(); }

 private:
  struct Told {
    std::vector<std::byte> bytes;
    std::unique_ptr<net::SendOp> op;
  };

  void remember(ConstView payload) {
    if (!payload.is_phantom()) before_.assign(payload.data(), payload.data() + payload.size());
  }

  template <class T>
  static void put(std::span<std::byte> bytes, Rng& rng, std::span<const T> values) {
    if (bytes.size() < sizeof(T)) return;
    const std::size_t place = rng.below(bytes.size() / sizeof(T)) * sizeof(T);
    T value = values[rng.below(values.size())];
    T was;
    std::memcpy(&was, bytes.data() + place, sizeof was);
    if constexpr (std::is_integral_v<T>)
      if (rng.below(3) == 0) value = static_cast<T>(was + (rng.below(2) == 0 ? 1 : static_cast<T>(-1)));
    std::memcpy(bytes.data() + place, &value, sizeof value);
  }

  /// One change of a few bytes.
  static void edit(std::span<std::byte> bytes, Rng& rng) {
    if (bytes.empty()) return;
    using Wide = std::numeric_limits<std::int64_t>;
    static constexpr std::array<std::uint64_t, 12> kWords = {0,
                                                             1,
                                                             2,
                                                             7,
                                                             0xffffffffffffffffU,
                                                             static_cast<std::uint64_t>(Wide::min()),
                                                             1U << 20,
                                                             1U << 31,
                                                             1ULL << 32,
                                                             1ULL << 40,
                                                             1ULL << 62,
                                                             static_cast<std::uint64_t>(Wide::max())};
    static constexpr std::array<std::uint32_t, 7> kHalves = {0,    1, 0xffffffffU, 0x80000000U, 0x7fffffffU,
                                                             4096, 3};
    static constexpr std::array<double, 6> kReals = {
        std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1, 0.5, 1e300, 0};
    switch (rng.below(6)) {
      case 0:
        bytes[rng.below(bytes.size())] ^= std::byte{1} << static_cast<int>(rng.below(8));
        break;
      case 1:
      case 2:
        put<std::uint64_t>(bytes, rng, kWords);
        break;
      case 3:
        put<std::uint32_t>(bytes, rng, kHalves);
        break;
      case 4:
        put<double>(bytes, rng, kReals);
        break;
      default:  // a text's character
        bytes[rng.below(bytes.size())] = static_cast<std::byte>(' ' + rng.below(95));
    }
  }

  void change(std::vector<std::byte>& bytes) const {
    Rng rng(lie_->seed, "lie", bytes.size());
    switch (rng.below(12)) {
      case 0:
        bytes.resize(rng.below(bytes.size() + 1));
        return;
      case 1:
        bytes.resize(bytes.size() + 1 + rng.below(64));
        return;
      case 2:
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
        return;
      case 3:
        std::fill(bytes.begin(), bytes.end(), rng.below(2) == 0 ? std::byte{0} : std::byte{0xff});
        return;
      case 4:
        if (before_.size() == bytes.size()) bytes = before_;
        return;
      default:
        break;
    }
    const std::optional<codec::Head> head = head_of(bytes);
    std::span<std::byte> open(bytes);
    if (head && rng.below(4) != 0) open = open.subspan(sizeof *head);
    for (std::uint64_t edits = 1 + rng.below(3); edits > 0; --edits) edit(open, rng);
    if (head && open.size() < bytes.size()) codec::seal(View(bytes.data(), bytes.size()), *head);
  }

  /// If they are a wire of a codec.
  static std::optional<codec::Head> head_of(std::span<const std::byte> bytes) {
    codec::Head head;
    if (bytes.size() < sizeof head) return {};
    std::memcpy(&head, bytes.data(), sizeof head);
    try {
      codec::open(ConstView(bytes.data(), bytes.size()), bytes.size(), head);
    } catch (const Error&) {
      return {};
    }
    return head;
  }

  const Lie* lie_;
  MessageCounts counts_;
  std::vector<std::byte> before_;  // the last message of the kind that was no lie
  std::list<Told> told_;
};

}  // namespace taxon::test
