#include "net/transport.h"

#include <cstring>
#include <limits>

#include "net/describe.h"

namespace taxon::net {

std::vector<std::byte> RemoteRegion::pack() const {
  std::uint64_t head[] = {static_cast<std::uint64_t>(owner.value()), address, size};
  std::vector<std::byte> bytes(sizeof head + key.size());
  std::memcpy(bytes.data(), head, sizeof head);
  if (!key.empty()) std::memcpy(bytes.data() + sizeof head, key.data(), key.size());
  return bytes;
}

RemoteRegion RemoteRegion::unpack(ConstView bytes) {
  std::uint64_t head[3];
  if (bytes.size() < sizeof head) throw Error(ErrorKind::Mismatch, "a packed memory region is cut short");
  std::memcpy(head, bytes.data(), sizeof head);
  if (head[0] > std::numeric_limits<std::int32_t>::max() || head[1] + head[2] < head[1])
    throw Error(ErrorKind::Mismatch, "a packed memory region is of no rank, or goes on beyond all memory");
  return {Rank(static_cast<std::int32_t>(head[0])), head[1], head[2],
          std::vector<std::byte>(bytes.data() + sizeof head, bytes.data() + bytes.size())};
}

Op::Op(Transport& transport, Rank peer, Tag tag) : peer(peer), tag(tag), transport_(transport) {}

Op::~Op() { TAXON_CHECK(done_, "an operation died while the network owned its buffer: ", describe_tag(tag)); }

task::WaitInfo Op::describe() const { return {describe_operation(tag), peer, subject(), since_}; }

std::string Op::subject() const { return describe_subject(tag, transport_.pending()); }

template <class Self>
void Op::start(Self& self) {
  if (auto why = transport_.pending().cancelled()) {
    error_ = why;
    done_ = true;
    return;
  }
  list_in(transport_.pending());
  transport_.start(self);
  // Most operations of shared memory are done by now, and nobody asks since when.
  if (!done_) since_ = transport_.executor().now();
}

void Op::complete(std::exception_ptr error) {
  TAXON_CHECK(!done_, "an operation completed twice: ", describe_tag(tag));
  unlist();
  error_ = error;
  done_ = true;
  if (auto then = std::exchange(then_, nullptr)) then.resume();
}

bool Op::release(std::exception_ptr why) {
  transport_.forget(*this);
  error_ = why;
  done_ = true;
  return true;
}

void Op::resume_released() {
  if (auto then = std::exchange(then_, nullptr)) then.resume();
}

SendOp::SendOp(Transport& transport, Rank peer, Tag tag, ConstView payload, DType type)
    : Op(transport, peer, tag), payload(payload), type(type) {
  start(*this);
}

RecvOp::RecvOp(Transport& transport, Rank peer, Tag tag, View payload, DType type)
    : Op(transport, peer, tag), payload(payload), type(type) {
  start(*this);
}

PutOp::PutOp(Transport& transport, ConstView payload, const RemoteRegion* region, std::size_t offset,
             RemoteSignal signal, std::uint64_t value)
    : Op(transport, signal.owner, Tag{}),
      payload(payload),
      region(region),
      offset(offset),
      signal(signal),
      value(value) {
  TAXON_CHECK(
      payload.empty() || (region && region->owner == signal.owner && offset + payload.size() <= region->size),
      "offset=", offset, " size=", payload.size());
  start(*this);
}

AwaitSignalOp::AwaitSignalOp(Transport& transport, Rank peer, Tag tag, std::uint32_t index,
                             std::uint64_t value)
    : Op(transport, peer, tag), index(index), value(value) {
  TAXON_CHECK(index < transport.signals(), "signal ", index, " of ", transport.signals());
  start(*this);
}

bool Transport::raise_now(RemoteSignal, std::uint64_t) { return false; }

std::uint32_t Transport::allot_signals(std::uint32_t count) {
  if (count > signals() - allotted_)
    throw Error(ErrorKind::Transport,
                detail::join("all ", signals(), " signals of rank ", rank().value(),
                             " are in use: exchange in fewer, larger buckets, or over fewer groups"));
  return std::exchange(allotted_, allotted_ + count);
}

std::optional<Transport::Signals> Transport::take_kept_signals(SignalsName name) {
  auto kept = kept_.extract(name);
  if (kept.empty()) return std::nullopt;
  return kept.mapped();
}

}  // namespace taxon::net
