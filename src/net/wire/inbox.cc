#include "net/wire/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/describe.h"
#include "net/mismatch.h"

namespace taxon::net {
namespace {

constexpr const char* kOutOfOrder = "fragments out of order";
/// No host has memory for more.
constexpr std::uint64_t kLargest = std::uint64_t{1} << 44;

}  // namespace

Inbox::Inbox(Setting setting, Completions& completions, const RegionTable& regions, SignalPage page)
    : setting_(setting),
      completions_(completions),
      regions_(regions),
      page_(page),
      sources_(static_cast<std::size_t>(setting.world_size)),
      arrivals_(setting.world_size) {}

Inbox::~Inbox() {
  while (KeptMessage* message = mailbox_.take_any()) kept_.give_back(message);
}

bool Inbox::awaits(Rank from) const {
  const std::vector<Incoming>& open = sources_[static_cast<std::size_t>(from.value())].open;
  return mailbox_.receives_from(from) || std::any_of(open.begin(), open.end(), [](const Incoming& incoming) {
           return incoming.receive != nullptr;
         });
}

void Inbox::start(RecvOp& op) {
  KeptMessage* kept = mailbox_.take_message(op.peer, op.tag);
  if (kept == nullptr) return mailbox_.post(op);
  std::vector<Incoming>& open = source(op.peer.value()).open;
  const auto partial =
      std::find_if(open.begin(), open.end(), [&](const Incoming& incoming) { return incoming.kept == kept; });
  auto error = check_match(op, setting_.self, {kept->size, kept->type});
  if (!error && kept->received > 0) std::memcpy(op.payload.data(), kept->bytes.data(), kept->received);
  kept_.give_back(kept);
  if (partial != open.end()) {  // the rest goes straight to the receive
    partial->kept = nullptr;
    partial->target = error ? nullptr : op.payload.data();
    partial->receive = error ? nullptr : &op;
  }
  if (error || partial == open.end()) op.complete(error);
}

bool Inbox::forget(RecvOp& op) {
  for (Incoming& incoming : source(op.peer.value()).open) {
    if (incoming.receive != &op) continue;
    incoming.receive = nullptr;
    incoming.target = nullptr;
    return true;
  }
  return mailbox_.forget(op);
}

void Inbox::take(ConstView head, ConstView fragment, std::optional<Rank> from) {
  WireHeader header;
  if (!accept(head, header, from)) return;
  if (begin(header, fragment.size()) == Turn::Later) return fail(header, kOutOfOrder);
  if (std::byte* to = target(header); to != nullptr && !fragment.empty())
    std::memcpy(to + header.offset, fragment.data(), fragment.size());
  end(header, fragment.size());
}

bool Inbox::accept(ConstView bytes, WireHeader& header, std::optional<Rank> from) {
  if (broken_) return false;
  if (!is_of_job(bytes, setting_.epoch)) {
    ++stale_;
    return false;
  }
  const std::string fault = header_fault(bytes);
  if (fault.empty()) std::memcpy(&header, bytes.data(), sizeof header);
  const Rank source(header.source);
  const char* wrong = !fault.empty()                                              ? fault.c_str()
                      : header.source < 0 || header.source >= setting_.world_size ? "an unknown source"
                      : from && source != *from              ? "another rank's name on a connection"
                      : !from && source == setting_.self     ? "an unknown source"
                      : header.kind > WireKind::Confirmation ? "an unknown kind"
                      : header.type > static_cast<std::uint8_t>(DType::UInt8) ? "an unknown type"
                      : header.tag.operation > Operation::AllToAll            ? "an unknown operation"
                      : header.kind != WireKind::Confirmation && header.size > kLargest ? "an impossible size"
                                                                                        : nullptr;
  if (wrong != nullptr) {
    fail(fault.empty() ? header : WireHeader(), wrong);
    return false;
  }
  if (header.kind != WireKind::Confirmation) return true;
  confirmed_.push_back(
      {source, {Duration(static_cast<std::int64_t>(header.value)), static_cast<double>(header.address)}});
  return false;
}

Inbox::Turn Inbox::begin(const WireHeader& header, std::size_t fragment) {
  if (broken_) return Turn::Now;
  Source& from = source(header.source);
  const std::pair place(header.order, header.offset), next(from.next, from.offset);
  if (place > next) return Turn::Later;
  const bool first = header.offset == 0;
  const bool fits =
      place == next && fragment <= header.size - header.offset && (fragment > 0 || header.size == 0);
  if (!fits || (!first && from.open.back().header.size != header.size)) {
    fail(header, kOutOfOrder);
    return Turn::Now;
  }
  if (first) open(from, header);
  from.offset += fragment;
  if (KeptMessage* kept = from.open.back().kept) kept->received = from.offset;
  if (from.offset == header.size) {
    ++from.next;
    from.offset = 0;
  }
  return Turn::Now;
}

Inbox::Incoming* Inbox::find(const WireHeader& header) {
  Source& from = source(header.source);
  const std::uint64_t place = header.order - from.first;
  return place < from.open.size() ? &from.open[place] : nullptr;
}

std::byte* Inbox::target(const WireHeader& header) {
  // Nobody has checked where a fragment belongs that broke the protocol.
  Incoming* incoming = broken_ ? nullptr : find(header);
  return incoming ? incoming->target : nullptr;
}

void Inbox::end(const WireHeader& header, std::size_t fragment) {
  Incoming* incoming = find(header);
  if (broken_ || incoming == nullptr) return;
  if ((header.flags & kPayloadChecksum) != 0 && incoming->target != nullptr &&
      checksum_of(ConstView(incoming->target + header.offset, fragment)) != header.payload_checksum) {
    fail(header, "a damaged payload");
    if (incoming->receive) incoming->damage = broken_;
  }
  incoming->received += fragment;
  bytes_received_ += fragment;
  arrivals_.count(Rank(header.source), fragment);
  if ((header.flags & kConfirm) != 0) asked_.push_back(Rank(header.source));
  // Whoever sees a signal sees all that was sent before.
  Source& from = source(header.source);
  while (!from.open.empty() && from.open.front().received == from.open.front().header.size) {
    finish(from.open.front());
    from.open.erase(from.open.begin());
    ++from.first;
  }
}

void Inbox::open(Source& from, const WireHeader& header) {
  Incoming& incoming = from.open.emplace_back();
  incoming.header = header;
  if (header.kind == WireKind::Message) return open_message(incoming);
  if (header.signal >= setting_.signals ||
      (header.size > 0 && !regions_.contains(header.address, header.size)))
    return fail(header, "a put into a region or signal that does not exist");
  incoming.target = reinterpret_cast<std::byte*>(header.address);
}

void Inbox::open_message(Incoming& incoming) {
  const WireHeader& header = incoming.header;
  Rank source(header.source);
  auto type = static_cast<DType>(header.type);
  if (RecvOp* receive = mailbox_.take_receive(source, header.tag)) {
    if (auto error = check_match(*receive, setting_.self, {header.size, type})) {
      completions_.push(*receive, error);
      return;
    }
    incoming.receive = receive;
    incoming.target = receive->payload.data();
    return;
  }
  KeptMessage* kept = kept_.take();
  kept->source = source;
  kept->tag = header.tag;
  kept->type = type;
  kept->size = header.size;
  try {
    kept->bytes.resize(header.size);
  } catch (const std::exception&) {
    kept_.give_back(kept);
    return fail(header, "a message that no memory is left for,");
  }
  incoming.kept = kept;
  incoming.target = kept->bytes.data();
  mailbox_.keep(*kept);
}

void Inbox::finish(Incoming& incoming) {
  if (incoming.receive) completions_.push(*incoming.receive, incoming.damage);
  if (incoming.header.kind == WireKind::Put && !broken_ &&
      page_.value(incoming.header.signal) < incoming.header.value)
    page_.raise(incoming.header.signal, incoming.header.value);
}

void Inbox::deliver_own(const SendOp& op) {
  WireHeader header;
  header.epoch = setting_.epoch;
  header.tag = op.tag;
  header.source = setting_.self.value();
  header.type = static_cast<std::uint8_t>(op.type);
  header.size = op.payload.size();
  header.order = source(header.source).next;
  seal(header);
  take(ConstView(reinterpret_cast<const std::byte*>(&header), sizeof header), op.payload, setting_.self);
}

void Inbox::fail(const WireHeader& header, const std::string& what) {
  if (broken_) return;
  broken_ = std::make_exception_ptr(Error(
      ErrorKind::Transport,
      fmt::format(
          "rank {} received {} (from rank {}, {}, {}). The network or the memory of a host is faulty, or a "
          "foreign program wrote to Taxon's port.",
          setting_.self.value(), what, header.source, describe_operation(header.tag),
          describe_tag(header.tag)),
      ErrorContext{Rank(header.source), describe_operation(header.tag), describe_tag(header.tag)}));
}

}  // namespace taxon::net
