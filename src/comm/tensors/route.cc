#include "comm/tensors/route.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

#include "comm/in_flight.h"
#include "comm/told.h"

namespace taxon::comm {
namespace {

constexpr std::uint32_t kOpeningRound = 0xffff0000U;
constexpr std::uint64_t kMostOpening = 64 << 10;  // bytes that an end tells when a channel is opened

/// Bytes of any length to the peer, and its; sizes first.
struct Swap {
  net::Transport& transport;
  Rank peer;
  net::Tag tag;
  std::vector<std::byte> mine;
  std::vector<std::byte> theirs;
  std::uint64_t my_size = 0, their_size = 0;
  std::optional<net::RecvOp> receive_size, receive;
  std::optional<net::SendOp> send_size, send;

  Swap(net::Transport& transport, Rank peer, net::Tag tag, std::vector<std::byte> bytes)
      : transport(transport), peer(peer), tag(tag), mine(std::move(bytes)) {}

  task::Task<void> run() {
    my_size = mine.size();
    net::Tag second = tag;
    ++second.round;
    receive_size.emplace(transport, peer, tag, as_view(std::span(&their_size, 1)), DType::Int64);
    send_size.emplace(transport, peer, tag, as_view(std::span(&my_size, 1)), DType::Int64);
    send.emplace(transport, peer, second, ConstView(mine.data(), mine.size()), DType::UInt8);
    net::RecvOp& size = *receive_size;
    co_await size;
    if (their_size > kMostOpening)
      throw told_wrong(peer, "tensor channel", fmt::format("{} bytes about its end", their_size));
    net::SendOp& sent_size = *send_size;
    co_await sent_size;
    theirs.resize(their_size);
    receive.emplace(transport, peer, second, View(theirs.data(), theirs.size()), DType::UInt8);
    net::RecvOp& received = *receive;
    co_await received;
    net::SendOp& sent = *send;
    co_await sent;
  }
};

task::Task<std::vector<std::byte>> swap_with(net::Transport& transport, Rank peer, net::Tag tag,
                                             std::vector<std::byte> mine) {
  Swap swap(transport, peer, tag, std::move(mine));
  auto body = swap.run();
  co_await settle(transport.pending(), std::move(body));
  co_return std::move(swap.theirs);
}

}  // namespace

const char* to_string(TensorPath path) {
  switch (path) {
    case TensorPath::Written:
      return "written into the receiver's memory (one copy)";
    case TensorPath::ReadInPlace:
      return "read in place in the sender's memory (no copy)";
    case TensorPath::ReadCopied:
      return "copied out of the sender's memory (one copy)";
    case TensorPath::Messages:
      return "messages, since no memory is shared";
  }
  return "";
}

TensorEnd::TensorEnd(Communicator& group, TensorRoute route, TensorOptions options, Role role)
    : group_(group), route_(route), options_(options) {
  TAXON_CHECK(route.sender != route.receiver, "member ", route.sender, " sends to itself");
  TAXON_CHECK(options.depth > 0, "a channel without credits");
  const bool sends = role == Role::Sender;
  TAXON_CHECK(group.rank() == (sends ? route.sender : route.receiver), "member ", group.rank(),
              " is not at this end");
  peer_ = group.global(sends ? route.receiver : route.sender);
  tag_ = group.tag(net::Operation::Tensor, route.unit);
  tag_.lane = static_cast<std::uint16_t>(route.sender);  // one pair may have channels of both directions
}

net::Tag TensorEnd::tag(std::uint64_t use, std::uint32_t round) const {
  net::Tag tag = tag_;
  tag.sequence = static_cast<std::uint32_t>(use);
  tag.round = round;
  return tag;
}

std::string TensorEnd::name() const {
  return fmt::format("rank {} to rank {}, unit {}", group_.global(route_.sender).value(),
                     group_.global(route_.receiver).value(), route_.unit);
}

std::string TensorEnd::describe() const {
  return fmt::format("tensors from {}: {}, through {}", name(), to_string(path),
                     transport().path(peer_).name);
}

Error TensorEnd::error(ErrorKind kind, const std::string& what) const {
  return Error(kind, fmt::format("tensor channel {}: {}", name(), what),
               ErrorContext{peer_, "tensor channel", name()});
}

task::Task<TensorEnd::Opening> TensorEnd::open(Facts facts, const TensorArena* arena) {
  facts.depth = options_.depth;
  facts.integrity = static_cast<std::uint32_t>(options_.integrity);
  std::vector<std::byte> mine(sizeof facts);
  std::memcpy(mine.data(), static_cast<const void*>(&facts), sizeof facts);
  if (arena != nullptr) {
    const auto packed = arena->share().pack();
    mine.insert(mine.end(), packed.begin(), packed.end());
  }
  const auto answer = co_await swap_with(transport(), peer_, tag(0, kOpeningRound), std::move(mine));

  Opening opening;
  if (answer.size() < sizeof facts) throw error(ErrorKind::Mismatch, "the other end is of another version");
  std::memcpy(static_cast<void*>(&opening.facts), answer.data(), sizeof facts);
  if (answer.size() > sizeof facts)
    opening.arena =
        RemoteArena::unpack(ConstView(answer.data() + sizeof facts, answer.size() - sizeof facts));
  const Facts& theirs = opening.facts;
  if (answer.size() > sizeof facts &&
      (opening.arena.payload.owner != peer_ || opening.arena.control.owner != peer_))
    throw told_wrong(peer_, "tensor channel", "an arena of another rank");
  const bool two = theirs.kind == Kind::Static && group_.rank() == route_.sender;
  if (std::uint64_t{theirs.first_signal} + (two ? 2 : 1) > transport().signals())
    throw told_wrong(peer_, "tensor channel",
                     fmt::format("signal {} of {}", theirs.first_signal, transport().signals()));
  if (theirs.kind != facts.kind) throw error(ErrorKind::Mismatch, "one end is static, the other dynamic");
  if (theirs.depth != facts.depth || theirs.integrity != facts.integrity)
    throw error(ErrorKind::Mismatch,
                fmt::format("the ends were opened with different options: depth {} here, {} there; integrity "
                            "{} here, {} there",
                            facts.depth, theirs.depth, facts.integrity, theirs.integrity));
  if (facts.kind == Kind::Static && theirs.shape != facts.shape) {
    const bool valid = theirs.shape.checked_bytes().has_value();
    throw error(ErrorKind::Mismatch, fmt::format("{} here, {} there", facts.shape.describe(),
                                                 valid ? theirs.shape.describe() : "no valid shape"));
  }
  co_return opening;
}

task::Task<std::byte> TensorEnd::agree(std::byte mine, std::uint32_t round) {
  std::vector<std::byte> byte(1, mine);
  const auto answer =
      co_await swap_with(transport(), peer_, tag(0, kOpeningRound + 2 * round), std::move(byte));
  if (answer.size() != 1) throw error(ErrorKind::Mismatch, "the other end is of another version");
  co_return answer[0];
}

bool Credits::give(std::uint64_t sequence) {
  if (sequence == given_ + 1 && early_ == 0) {  // in order, as mostly
    given_ = sequence;
    return true;
  }
  const std::size_t depth = returned_.size();
  TAXON_CHECK(sequence > given_ && sequence <= given_ + depth && !returned_[sequence % depth], "tensor ",
              sequence, " is returned twice");
  returned_[sequence % depth] = true;
  ++early_;
  const std::uint64_t before = given_;
  for (; early_ > 0 && returned_[(given_ + 1) % depth]; --early_) returned_[++given_ % depth] = false;
  return given_ > before;
}

std::uint64_t checksum_of_tensor(ConstView bytes) {
  return bytes.is_phantom() ? 0 : XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace taxon::comm
