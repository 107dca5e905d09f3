#pragma once

#include <array>

#include "comm/communicator.h"
#include "comm/failure_monitor.h"
#include "exchange/channel/rma_window.h"

namespace taxon::exchange {

/// What this rank and another one count together over all channels between them: each writes values straight
/// into the other's memory, and one signal each way counts these.
struct ChannelPeer {
  int member = 0;  // of the group
  bool shares_memory = false;
  std::uint32_t signal = 0;   // of this rank, raised by the other
  std::uint64_t written = 0;  // values that this rank wrote there
  std::uint64_t came = 0;     // values that the other has said to have written here
  std::size_t channels = 0;   // that place values; those of each are on their way once at a time
};

/// The tag of a message in the `use`-th exchange of a unit between two members.
net::Tag channel_tag(const comm::Communicator& group, std::uint32_t unit, std::uint32_t use,
                     std::uint32_t message);

/// One end of request and answer between two members of a group, message by message: the uses of one unit,
/// which both ends count. The loss of an expendable peer fails this channel's waits alone
/// (comm::FailureMonitor). Executor's thread only; the group outlives it.
class Channel {
 public:
  Channel(comm::Communicator& group, int member, std::uint32_t unit, std::uint32_t use = 0,
          comm::FailureMonitor* failures = nullptr)
      : group_(group), member_(member), unit_(unit), use_(use), failures_(failures) {}
  Channel(const Channel&) = delete;

  Rank rank() const { return group_.global(member_); }
  net::Transport& transport() const { return group_.runtime().transport; }
  std::uint32_t use() const { return use_; }
  void next_use() { ++use_; }

  /// `message` tells the messages of one use apart. `bytes` outlive the coroutine.
  task::Task<void> say(std::uint32_t message, ConstView bytes, DType type = DType::UInt8);
  task::Task<void> hear(std::uint32_t message, View bytes, DType type = DType::UInt8);

 protected:
  net::Tag tag(std::uint32_t message) const { return channel_tag(group_, unit_, use_, message); }
  template <class First, class Second>
  task::Task<void> both(First* first, Second* second);

  comm::Communicator& group_;
  const int member_;
  const std::uint32_t unit_;
  std::uint32_t use_;
  comm::FailureMonitor* const failures_;
};

/// A channel whose use is a contribution and its answer: values with a head ahead of them, one way and then
/// the other. Between ends that share memory, each head says where in its sender's memory the values of the
/// other direction may be written. That is the credit: nothing is written over that is in use, and where no
/// place is free the values come as a message. The peer's counts outlive it.
class ValueChannel : public Channel {
 public:
  using Head = std::array<std::int64_t, 8>;
  /// One direction, in which both ends agree.
  struct Direction {
    std::uint32_t head = 0, values = 0;  // their messages
    std::size_t written = 0;  // the head's field that numbers values written into place; 0: a message follows
    const char* operation = "";  // in errors: "hand in"
    const char* name = "";       // of its values: "contributions"
  };
  /// What a head is between ends that share memory.
  struct PlacedHead {
    Head head{};
    WindowDescriptor wanted;  // where values of the other direction may be written next
  };

  /// `placed`: values travel as they are, so that they may be written into place where memory is shared.
  ValueChannel(comm::Communicator& group, ChannelPeer& peer, std::uint32_t unit, bool placed, Direction out,
               Direction in, comm::FailureMonitor* failures = nullptr);

  bool placed() const { return placed_; }
  /// Sends values behind their head; `wanted`: where those that come back may be written. Values that are in
  /// place already are none (see place()).
  task::Task<void> send(Head head, ConstView values, DType type, WindowDescriptor wanted);
  /// Sends a head after which nothing comes; `values`, whatever they are, where the peer listens for both.
  task::Task<void> send_last(Head head, ConstView values, DType type);
  /// The next head; where the channel is not placed, the values come with it, to `values`.
  task::Task<Head> receive(View values, DType type);
  /// Reads what that head says of places: where `bytes` bytes may go next. True if its own values are written
  /// to where this end wanted them. Throws Error{Mismatch} for what no peer of this run may say.
  bool read_credit(std::size_t bytes);
  /// Then the values, as far as they have not come: to `into`, unless they are written into place.
  task::Task<void> receive_values(View into, DType type);
  /// Where the peer wants the next values, in this process's address space; empty if it can't be written so.
  View place() const { return wanted_ ? wanted_.map(transport()) : View(); }

 private:
  ChannelPeer& peer_;
  const bool placed_;
  const Direction out_, in_;
  PlacedHead heard_;
  RemoteWindow wanted_;   // by the peer
  bool offered_ = false;  // the peer was told where to write
};

}  // namespace taxon::exchange
