#include "comm/channel.h"

#include <fmt/format.h>

#include <cstring>

#include "base/cache_line.h"
#include "comm/told.h"
#include "net/describe.h"

namespace taxon::comm {
namespace {

/// The lower bits of a signal's value tell what the member came with; 44 bits of meetings are left, months at
/// one per microsecond.
constexpr int kCheckBits = 20;
constexpr std::uint64_t kCheckMask = (std::uint64_t{1} << kCheckBits) - 1;
constexpr std::uint32_t kOpenRound = 0xffff0000U;

std::uint64_t check_of(const Call& call) {
  std::uint64_t shape =
      static_cast<std::uint64_t>(call.data.size()) * 8 + static_cast<std::uint64_t>(call.type);
  return (shape ^ shape >> kCheckBits ^ shape >> 2 * kCheckBits) & kCheckMask;
}

/// What a member tells when a channel is opened.
struct Facts {
  std::uint64_t bytes = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t type = 0;
  std::uint32_t first_signal = 0;
  std::uint64_t meetings = 0;
};

}  // namespace

Channel::Channel(Communicator& group, std::vector<std::uint32_t> theirs, std::uint32_t own,
                 std::uint64_t meetings, net::Transport::SignalsName name)
    : group_(group), theirs_(std::move(theirs)), own_(own), meeting_(meetings), name_(name) {}

Channel::~Channel() { group_.runtime().transport.keep_signals(name_, {own_, meeting_}); }

bool Channel::is_open(Communicator& group, const net::Tag& tag, std::size_t slot_bytes) {
  const auto& channel = group.channel(tag);
  return channel && (slot_bytes == 0 || !channel->slots_.empty());
}

task::Task<void> Channel::open(Communicator& group, net::Tag tag, const Call& call, std::size_t slot_bytes) {
  if (is_open(group, tag, slot_bytes)) co_return;
  std::unique_ptr<Channel>& channel = group.channel(tag);
  net::Transport& transport = group.runtime().transport;
  auto members = static_cast<std::uint32_t>(group.size());
  const net::Transport::SignalsName name{tag.group, Communicator::key(tag)};
  net::Transport::Signals own;
  if (channel) {
    own = {channel->own_, channel->meeting_};
  } else if (const auto kept = transport.take_kept_signals(name)) {
    own = *kept;
  } else {
    own.first = transport.allot_signals(members);
  }
  Facts facts{call.data.size(), slot_bytes, static_cast<std::uint32_t>(call.type), own.first, own.counted};
  net::Tag opening = tag;
  opening.round = kOpenRound;
  auto asked = group.gather(opening, ConstView(reinterpret_cast<const std::byte*>(&facts), sizeof facts));
  auto answers = co_await asked;
  std::vector<std::uint32_t> theirs;
  std::uint64_t meetings = 0;
  for (int member = 0; member < group.size(); ++member) {
    Facts other;
    std::memcpy(&other, answers.data() + static_cast<std::size_t>(member) * sizeof other, sizeof other);
    if (other.bytes != facts.bytes || other.type != facts.type || other.slot_bytes != facts.slot_bytes)
      disagree(group, member, tag, call);
    // All ranks have as many signals.
    if (std::uint64_t{other.first_signal} + members > transport.signals())
      throw told_wrong(group.global(member), net::describe_operation(tag),
                       fmt::format("signal {} of {}", other.first_signal, transport.signals()));
    if (other.meetings >> (63 - kCheckBits) != 0)
      throw told_wrong(group.global(member), net::describe_operation(tag),
                       fmt::format("{} meetings before", other.meetings));
    theirs.push_back(other.first_signal);
    meetings = std::max(meetings, other.meetings);
  }
  if (!channel) channel = std::make_unique<Channel>(group, std::move(theirs), own.first, meetings, name);
  if (slot_bytes == 0) co_return;

  std::size_t slot = round_to_line(slot_bytes);
  channel->region_ = transport.allocate(2 * slot);
  ++opening.round;
  channel->slots_ = co_await group.map_all(opening, channel->region_);
  if (channel->slots_.empty())
    throw Error(ErrorKind::Transport,
                "ranks of one host could not map each other's memory: is /dev/shm large enough, and do the "
                "processes share one user and one namespace?",
                ErrorContext{
                    {}, net::describe_operation(tag), net::describe_subject(tag, group.runtime().pending())});
}

net::RemoteSignal Channel::signal_at(int member) const {
  return {group_.global(member),
          theirs_[static_cast<std::size_t>(member)] + static_cast<std::uint32_t>(group_.rank())};
}

std::uint64_t Channel::value(const Call& call) const { return meeting_ << kCheckBits | check_of(call); }

task::Task<void> Channel::raise(int member, const Call& call) {
  net::PutOp put(group_.runtime().transport, {}, nullptr, 0, signal_at(member), value(call));
  co_await put;
}

task::Task<void> Channel::wait(int member, net::Tag tag, const Call& call) {
  net::AwaitSignalOp reached(group_.runtime().transport, group_.global(member), tag,
                             own_ + static_cast<std::uint32_t>(member), meeting_ << kCheckBits);
  co_await reached;
  // A member that is already further has compared the values itself.
  if (reached.seen >> kCheckBits == meeting_ && (reached.seen & kCheckMask) != check_of(call))
    disagree(group_, member, tag, call);
}

task::Task<void> Channel::meet(net::Tag tag, const Call& call) {
  net::Transport& transport = group_.runtime().transport;
  const int members = group_.size(), rank = group_.rank();
  const std::uint64_t check = check_of(call), least = ++meeting_ << kCheckBits;
  // Everybody starts at the next member, so that not all stores go to one rank first.
  for (int i = 1; i < members; ++i) {
    net::PutOp put(transport, {}, nullptr, 0, signal_at((rank + i) % members), least | check);
    co_await put;
  }
  for (int i = 1; i < members; ++i) {
    int member = (rank + i) % members;
    net::AwaitSignalOp reached(transport, group_.global(member), tag,
                               own_ + static_cast<std::uint32_t>(member), least);
    co_await reached;
    if (reached.seen >> kCheckBits == meeting_ && (reached.seen & kCheckMask) != check)
      disagree(group_, member, tag, call);
  }
}

void Channel::disagree(Communicator& group, int member, const net::Tag& tag, const Call& call) {
  Rank other = group.global(member), own = group.global(group.rank());
  std::string operation = net::describe_operation(tag),
              subject = net::describe_subject(tag, group.runtime().pending());
  throw Error(
      ErrorKind::Mismatch,
      fmt::format("Ranks disagree in {}, {}: rank {} came with another size or type than rank {}, which "
                  "has {} x {} ({} bytes). Every rank must run the same plan and the same model.",
                  operation, subject, other.value(), own.value(), call.data.size() / size_of(call.type),
                  to_string(call.type), call.data.size()),
      ErrorContext{other, operation, subject});
}

}  // namespace taxon::comm
