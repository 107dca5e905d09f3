#include "net/wire/inbox.h"

#include <fmt/format.h>

#include <cstring>

#include "net/describe.h"
#include "net/mismatch.h"

namespace taxon::net {

Inbox::Inbox(Setting setting, Completions& completions, const RegionTable& regions, SignalPage page)
    : setting_(setting),
      completions_(completions),
      regions_(regions),
      page_(page),
      incoming_(static_cast<std::size_t>(setting.world_size)),
      arrivals_(setting.world_size) {}

Inbox::~Inbox() {
  while (KeptMessage* message = mailbox_.take_any()) kept_.give_back(message);
}

bool Inbox::awaits(Rank source) const {
  return mailbox_.receives_from(source) ||
         incoming_[static_cast<std::size_t>(source.value())].receive != nullptr;
}

void Inbox::start(RecvOp& op) {
  KeptMessage* kept = mailbox_.take_message(op.peer, op.tag);
  if (kept == nullptr) return mailbox_.post(op);
  Incoming& incoming = incoming_[static_cast<std::size_t>(op.peer.value())];
  bool partial = incoming.kept == kept;
  auto error = check_match(op, setting_.self, {kept->size, kept->type});
  if (!error && kept->received > 0) std::memcpy(op.payload.data(), kept->bytes.data(), kept->received);
  kept_.give_back(kept);
  if (partial) {  // the rest goes straight to the receive
    incoming.kept = nullptr;
    incoming.target = error ? nullptr : op.payload.data();
    incoming.receive = error ? nullptr : &op;
  }
  if (error || !partial) op.complete(error);
}

bool Inbox::forget(RecvOp& op) {
  Incoming& incoming = incoming_[static_cast<std::size_t>(op.peer.value())];
  if (incoming.receive != &op) return mailbox_.forget(op);
  incoming.receive = nullptr;
  incoming.target = nullptr;
  return true;
}

void Inbox::arrived(ConstView head, ConstView fragment) {
  if (broken_) return;
  WireHeader header;
  if (std::string fault = header_fault(head); !fault.empty()) return fail(header, fault);
  std::memcpy(&header, head.data(), sizeof header);
  if (header.epoch != setting_.epoch) {
    ++stale_;
    return;
  }
  if (header.source < 0 || header.source >= setting_.world_size) return fail(header, "an unknown source");
  if (header.kind == WireKind::Confirmation) {
    confirmed_.push_back(
        {Rank(header.source),
         {Duration(static_cast<std::int64_t>(header.value)), static_cast<double>(header.address)}});
    return;
  }
  Incoming& incoming = incoming_[static_cast<std::size_t>(header.source)];
  if (header.order != incoming.order || header.offset != incoming.received ||
      fragment.size() > header.size - header.offset)
    return fail(header, "fragments out of order");
  if (!incoming.open) open(incoming, header);
  if ((header.flags & kPayloadChecksum) != 0 && checksum_of(fragment) != header.payload_checksum) {
    fail(header, "a damaged payload");
    if (incoming.receive) incoming.damage = broken_;
  }
  if (incoming.target != nullptr && !fragment.empty())
    std::memcpy(incoming.target + header.offset, fragment.data(), fragment.size());
  incoming.received += fragment.size();
  if (incoming.kept) incoming.kept->received = incoming.received;
  bytes_received_ += fragment.size();
  arrivals_.count(Rank(header.source), fragment.size());
  if ((header.flags & kConfirm) != 0) asked_.push_back(Rank(header.source));
  if (incoming.received == header.size) finish(incoming, header);
}

void Inbox::open(Incoming& incoming, const WireHeader& header) {
  incoming.open = true;
  if (header.kind == WireKind::Message) return open_message(incoming, header);
  if (header.signal >= setting_.signals ||
      (header.size > 0 && !regions_.contains(header.address, header.size)))
    return fail(header, "a put into a region or signal that does not exist");
  incoming.target = reinterpret_cast<std::byte*>(header.address);
}

void Inbox::open_message(Incoming& incoming, const WireHeader& header) {
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
  kept->bytes.resize(header.size);
  incoming.kept = kept;
  incoming.target = kept->bytes.data();
  mailbox_.keep(*kept);
}

void Inbox::finish(Incoming& incoming, const WireHeader& header) {
  if (incoming.receive) completions_.push(*incoming.receive, incoming.damage);
  if (header.kind == WireKind::Put && !broken_ && page_.value(header.signal) < header.value)
    page_.raise(header.signal, header.value);
  incoming = Incoming{incoming.order + 1};
}

void Inbox::deliver_own(const SendOp& op) {
  WireHeader header;
  header.epoch = setting_.epoch;
  header.tag = op.tag;
  header.source = setting_.self.value();
  header.type = static_cast<std::uint8_t>(op.type);
  header.size = op.payload.size();
  header.order = incoming_[static_cast<std::size_t>(header.source)].order;
  seal(header);
  arrived(ConstView(reinterpret_cast<const std::byte*>(&header), sizeof header), op.payload);
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
