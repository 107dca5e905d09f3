#include "net/faulty/faulty.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/describe.h"

namespace taxon::net {
namespace {

std::exception_ptr peer_lost(Rank peer, const Tag& tag) {
  return std::make_exception_ptr(Error(ErrorKind::PeerLost, fmt::format("rank {} was lost", peer.value()),
                                       ErrorContext{peer, describe_operation(tag), describe_tag(tag)}));
}

}  // namespace

FaultyTransport::FaultyTransport(Transport& inner, FaultyOptions options)
    : inner_(inner),
      options_(options),
      rng_(options.seed, "faulty transport", static_cast<std::uint64_t>(inner.rank().value())),
      waker_(inner.executor(), [this] { deliver_due(); }) {}

FaultyTransport::~FaultyTransport() {
  TAXON_CHECK(held_.empty(), held_.size(), " operations outlive their transport");
}

Path FaultyTransport::path(Rank peer) const {
  Path path = inner_.path(peer);
  if (options_.in_flight > 0) path.in_flight = options_.in_flight;
  return path;
}

void FaultyTransport::lose(Rank peer) {
  lost_.insert(peer);
  inner_.pending().cancel(peer_lost(peer, Tag{}));
}

bool FaultyTransport::fail_if_lost(Op& op) {
  if (!lost_.contains(op.peer)) return false;
  op.complete(peer_lost(op.peer, op.tag));
  return true;
}

void FaultyTransport::start(SendOp& op) {
  if (!fail_if_lost(op)) hold({Instant{}, &op, nullptr});
}
void FaultyTransport::start(RecvOp& op) {
  if (!fail_if_lost(op)) inner_.start(op);
}
void FaultyTransport::start(PutOp& op) {
  if (!fail_if_lost(op)) hold({Instant{}, nullptr, &op});
}
void FaultyTransport::start(AwaitSignalOp& op) {
  if (!fail_if_lost(op)) inner_.start(op);
}

void FaultyTransport::hold(Held held) {
  auto longest = static_cast<std::uint64_t>(std::max<std::int64_t>(options_.longest_delay.count(), 0));
  Duration delay(longest == 0 ? 0 : static_cast<std::int64_t>(rng_.below(longest + 1)));
  held.due = executor().now() + delay;
  for (const Held& other : held_) {
    bool same_queue =
        held.send ? other.send && other.send->peer == held.send->peer && other.send->tag == held.send->tag
                  : other.put && other.put->peer == held.put->peer;
    if (same_queue) held.due = std::max(held.due, other.due);
  }
  auto after = std::upper_bound(held_.begin(), held_.end(), held,
                                [](const Held& a, const Held& b) { return a.due < b.due; });
  held_.insert(after, held);
  waker_.wake(held_.front().due);
}

void FaultyTransport::deliver_due() {
  damaged_.remove_if([](const Damaged& damaged) { return damaged.op->done(); });
  // What a resumed coroutine sends waits for the next turn.
  std::size_t limit = held_.size();
  while (limit-- > 0 && !held_.empty() && held_.front().due <= executor().now()) {
    Held held = held_.front();
    held_.pop_front();
    if (held.send)
      deliver(*held.send);
    else
      inner_.start(*held.put);
  }
  if (!held_.empty()) waker_.wake(held_.front().due);
}

void FaultyTransport::deliver(SendOp& op) {
  bool cut = rng_.uniform() < options_.cut, corrupt = rng_.uniform() < options_.corrupt;
  ConstView payload = op.payload;
  if (!(cut || corrupt) || payload.empty() || payload.is_phantom()) return inner_.start(op);
  std::size_t size = cut ? payload.size() / 2 : payload.size();
  Damaged& damaged = damaged_.emplace_back();
  damaged.bytes.assign(payload.data(), payload.data() + size);
  if (corrupt && size > 0) damaged.bytes[rng_.below(size)] ^= std::byte{0x10};
  damaged.op =
      std::make_unique<SendOp>(inner_, op.peer, op.tag, ConstView(damaged.bytes.data(), size), op.type);
  op.complete();
}

void FaultyTransport::forget(Op& op) {
  auto held =
      std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.send == &op || h.put == &op; });
  if (held != held_.end())
    held_.erase(held);
  else
    inner_.forget(op);
}

}  // namespace taxon::net
