#include "exchange/channel/channel.h"

#include <fmt/format.h>

#include "comm/told.h"

namespace taxon::exchange {
namespace {

template <class First, class Second>
task::Task<void> await_both(First* first, Second* second) {
  co_await *first;
  co_await *second;
}

View bytes_of(ValueChannel::Head& head) { return as_view(std::span<std::int64_t>(head)); }
ConstView bytes_of(const ValueChannel::Head& head) {
  return as_const_view(std::span<const std::int64_t>(head));
}
View bytes_of(ValueChannel::PlacedHead& head) {
  return as_view(std::span<ValueChannel::PlacedHead>(&head, 1));
}
ConstView bytes_of(const ValueChannel::PlacedHead& head) {
  return as_const_view(std::span<const ValueChannel::PlacedHead>(&head, 1));
}

}  // namespace

net::Tag channel_tag(const comm::Communicator& group, std::uint32_t unit, std::uint32_t use,
                     std::uint32_t message) {
  net::Tag tag = group.tag(net::Operation::Serve, unit);
  tag.sequence = use;
  tag.round = message;
  return tag;
}

ValueChannel::ValueChannel(comm::Communicator& group, ChannelPeer& peer, std::uint32_t unit, bool placed,
                           Direction out, Direction in, comm::FailureMonitor* failures)
    : Channel(group, peer.member, unit, 0, failures),
      peer_(peer),
      placed_(placed && peer.shares_memory),
      out_(out),
      in_(in) {
  peer.channels += placed_;
}

/// Two operations that the caller's frame owns: when one fails, the network lets go of both first.
template <class First, class Second>
task::Task<void> Channel::both(First* first, Second* second) {
  comm::GuardedOp one(failures_, transport(), *first);
  comm::GuardedOp other(failures_, transport(), *second);
  std::exception_ptr error;
  try {
    co_await await_both(first, second);
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) co_return;
  if (!comm::is_expendable_loss(failures_, rank(), error)) group_.runtime().pending().cancel(error);
  std::rethrow_exception(error);
}

task::Task<void> ValueChannel::send(Head head, ConstView values, DType type, WindowDescriptor wanted) {
  const RemoteWindow to = std::exchange(wanted_, {});
  offered_ = wanted.packed > 0;
  PlacedHead told{head, wanted};
  told.head[out_.written] = to ? static_cast<std::int64_t>(++peer_.written) : 0;
  if (to) {
    net::PutOp puts(transport(), values, values.empty() ? nullptr : &to.region(), to.offset(), to.signal(),
                    peer_.written);
    net::SendOp says(transport(), rank(), tag(out_.head), bytes_of(std::as_const(told)), DType::UInt8);
    co_await both(&puts, &says);
    co_return;
  }
  net::SendOp says(transport(), rank(), tag(out_.head),
                   placed_ ? bytes_of(std::as_const(told)) : bytes_of(std::as_const(head)),
                   placed_ ? DType::UInt8 : DType::Int64);
  net::SendOp gives(transport(), rank(), tag(out_.values), values, type);
  co_await both(&says, &gives);
}

task::Task<void> ValueChannel::send_last(Head head, ConstView values, DType type) {
  if (!placed_) return send(head, values, type, {});
  heard_ = {head, {}};  // nothing is heard any more
  return say(out_.head, bytes_of(std::as_const(heard_)));
}

task::Task<ValueChannel::Head> ValueChannel::receive(View values, DType type) {
  if (placed_) {
    co_await hear(in_.head, bytes_of(heard_));
    co_return heard_.head;
  }
  net::RecvOp says(transport(), rank(), tag(in_.head), bytes_of(heard_.head), DType::Int64);
  net::RecvOp gives(transport(), rank(), tag(in_.values), values, type);
  co_await both(&says, &gives);
  co_return heard_.head;
}

bool ValueChannel::read_credit(std::size_t bytes) {
  if (!placed_) return false;
  const auto written = static_cast<std::uint64_t>(heard_.head[in_.written]);
  if (written > peer_.came + peer_.channels || (written > 0 && !offered_))
    throw comm::told_wrong(
        rank(), in_.operation,
        fmt::format("{} {} written into place here, where {} came before", written, in_.name, peer_.came));
  wanted_ = RemoteWindow(heard_.wanted, rank(), bytes, transport().signals());
  if (written > 0) ++peer_.came;
  return written > 0;
}

task::Task<void> ValueChannel::receive_values(View into, DType type) {
  if (!placed_) co_return;
  const auto written = static_cast<std::uint64_t>(heard_.head[in_.written]);
  if (written == 0) {
    co_await hear(in_.values, into, type);
    co_return;
  }
  net::AwaitSignalOp came(transport(), rank(), tag(in_.values), peer_.signal, written);
  comm::GuardedOp guard(failures_, transport(), came);
  co_await came;
}

task::Task<void> Channel::say(std::uint32_t message, ConstView bytes, DType type) {
  net::SendOp says(transport(), rank(), tag(message), bytes, type);
  comm::GuardedOp guard(failures_, transport(), says);
  co_await says;
}

task::Task<void> Channel::hear(std::uint32_t message, View bytes, DType type) {
  net::RecvOp hears(transport(), rank(), tag(message), bytes, type);
  comm::GuardedOp guard(failures_, transport(), hears);
  co_await hears;
}

}  // namespace taxon::exchange
