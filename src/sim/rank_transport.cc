#include "sim/rank_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/aligned_memory.h"
#include "base/units.h"
#include "net/mismatch.h"

namespace taxon::sim {
namespace {

constexpr std::size_t kAlignment = 64;
/// Addresses that no memory has.
constexpr std::uint64_t kPhantomAddresses = std::uint64_t{1} << 62;

void copy(View to, const std::vector<std::byte>& from) {
  if (!from.empty() && !to.is_phantom()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

/// A region's memory, which may outlive the region.
struct Network::RankTransport::Block {
  AlignedMemory memory;  // null for a phantom
  std::uint64_t address = 0;
  std::size_t size = 0;
  bool mapped = false;  // by a peer
  View bytes() const { return memory ? View(memory.get(), size) : View::phantom(size); }
};

class Network::RankTransport::Memory final : public net::Region::Impl {
 public:
  Memory(RankTransport& owner, Block& block) : owner_(owner), block_(block) {}
  ~Memory() override {
    auto found = owner_.blocks_.find(block_.address);
    owner_.memory().give_back(block_.size);
    if (block_.mapped && block_.memory) owner_.mapped_.push_back(std::move(found->second));
    owner_.blocks_.erase(found);
  }
  View bytes() const override { return block_.bytes(); }
  net::RemoteRegion share() const override { return {owner_.rank_, block_.address, block_.size, {}}; }

 private:
  RankTransport& owner_;
  Block& block_;
};

Network::RankTransport::RankTransport(Network& network, Rank rank)
    : network_(network),
      rank_(rank),
      values_(network.options_.signals),
      waiters_(network.options_.signals),
      next_phantom_(kPhantomAddresses) {}

Network::RankTransport::~RankTransport() {
  TAXON_CHECK(blocks_.empty(), blocks_.size(), " regions outlive their transport");
}

void Network::RankTransport::start(net::SendOp& op) {
  Message& message = network_.pool_.take();
  message.source = rank_;
  message.target = op.peer;
  message.tag = op.tag;
  message.type = op.type;
  message.is_put = false;
  message.size = op.payload.size();
  message.payload = op.payload;
  message.op = &op;
  message.route = network_.wiring_.route(rank_, network_.at(op.peer).rank_);
  if (op.peer != rank_) traffic_.count_sent(message.size);
  network_.send(message);
}

void Network::RankTransport::start(net::PutOp& op) {
  Message& message = network_.pool_.take();
  message.source = rank_;
  message.target = op.signal.owner;
  message.tag = op.tag;
  message.is_put = true;
  message.size = op.payload.size();
  message.payload = op.payload;
  message.op = &op;
  message.address = op.region != nullptr ? op.region->address + op.offset : 0;
  message.signal = op.signal.index;
  message.value = op.value;
  message.route = network_.wiring_.route(rank_, network_.at(op.signal.owner).rank_);
  if (op.peer != rank_) traffic_.count_sent(message.size);
  network_.send(message);
}

void Network::RankTransport::deliver_message(Message& message) {
  net::RecvOp* receive = mailbox_.take_receive(message.source, message.tag);
  if (receive == nullptr) return mailbox_.keep(message);
  auto error = net::check_match(*receive, rank_, {message.size, message.type});
  if (!error) copy(receive->payload, message.bytes);
  traffic_.bytes_received += message.size;
  network_.pool_.give_back(message);
  receive->complete(std::move(error));
}

void Network::RankTransport::start(net::RecvOp& op) {
  Message* message = mailbox_.take_message(network_.at(op.peer).rank_, op.tag);
  if (message == nullptr) return mailbox_.post(op);
  auto error = net::check_match(op, rank_, {message->size, message->type});
  if (!error) copy(op.payload, message->bytes);
  traffic_.bytes_received += message->size;
  network_.pool_.give_back(*message);
  op.complete(std::move(error));
}

void Network::RankTransport::deliver_put(Message& message) {
  traffic_.bytes_received += message.size;
  if (message.size > 0) {
    auto after = blocks_.upper_bound(message.address);
    const bool known = after != blocks_.begin();
    Block* block = known ? std::prev(after)->second.get() : nullptr;
    const bool inside = known && message.address - block->address + message.size <= block->size;
    if (inside) copy(block->bytes().slice(message.address - block->address, message.size), message.bytes);
    if (!inside) ++network_.stray_puts_;
  }
  auto [index, value] = std::pair{message.signal, message.value};
  network_.pool_.give_back(message);
  raise(index, value);
}

void Network::RankTransport::raise(std::uint32_t index, std::uint64_t value) {
  TAXON_CHECK(index < values_.size(), "signal ", index, " of ", values_.size());
  values_[index] = std::max(values_[index], value);
  net::Op** link = &waiters_[index];
  while (net::Op* waiter = *link) {
    if (static_cast<net::AwaitSignalOp*>(waiter)->value > values_[index]) {
      link = &waiter->next_in_queue;
      continue;
    }
    *link = waiter->next_in_queue;
    static_cast<net::AwaitSignalOp*>(waiter)->seen = values_[index];
    network_.completions_.push(*waiter);
  }
  network_.completions_.run();
}

void Network::RankTransport::start(net::AwaitSignalOp& op) {
  op.seen = values_[op.index];
  if (op.seen >= op.value) return op.complete();
  op.next_in_queue = std::exchange(waiters_[op.index], &op);
}

void Network::RankTransport::forget(net::Op& op) {
  if (network_.completions_.forget(op)) return;
  if (auto* receive = dynamic_cast<net::RecvOp*>(&op)) {
    TAXON_CHECK(mailbox_.forget(*receive), "an unknown receive was cancelled");
    return;
  }
  if (auto* await = dynamic_cast<net::AwaitSignalOp*>(&op)) {
    for (net::Op** link = &waiters_[await->index]; *link != nullptr; link = &(*link)->next_in_queue)
      if (*link == &op) {
        *link = op.next_in_queue;
        return;
      }
    return;
  }
  auto* message = static_cast<Message*>(op.request);
  TAXON_CHECK(message != nullptr && message->op == &op, "an unknown send was cancelled");
  message->op = nullptr;
  message->payload = {};
  message->dropped = true;
}

net::Region Network::RankTransport::allocate(std::size_t size) {
  TAXON_CHECK(size > 0, "an empty region");
  if (!memory().has_room(size))
    throw Error(ErrorKind::Transport,
                fmt::format("rank {} needs {} of shared memory, but its device has {}: use more ranks or a "
                            "smaller model, or raise memory in the cluster file",
                            rank_.value(), format_bytes(static_cast<double>(memory().taken() + size)),
                            format_bytes(static_cast<double>(memory().limit()))));
  auto block = std::make_unique<Block>();
  block->size = size;
  if (size > network_.options_.phantom_above) {
    block->address = next_phantom_;
    next_phantom_ += size + kAlignment;
  } else {
    block->memory = allocate_aligned(size);
    if (!block->memory) throw Error(ErrorKind::Transport, "out of memory for a region");
    block->address = reinterpret_cast<std::uint64_t>(block->memory.get());
  }
  memory().take(size);
  Block& made = *block;
  blocks_.emplace(made.address, std::move(block));
  return net::Region(std::make_unique<Memory>(*this, made));
}

bool Network::RankTransport::shares_memory_with(Rank peer) const {
  const Wiring& wiring = network_.wiring_;
  return wiring.host(rank_) == wiring.host(peer) && wiring.place(rank_).model->shares_memory;
}

View Network::RankTransport::map(const net::RemoteRegion& region) {
  if (!shares_memory_with(region.owner)) return {};
  auto& blocks = network_.at(region.owner).blocks_;
  auto found = blocks.find(region.address);
  if (found == blocks.end()) return {};
  found->second->mapped = true;
  return found->second->bytes();
}

net::Path Network::RankTransport::path(Rank peer) const {
  const Wiring& wiring = network_.wiring_;
  const bool one_host = wiring.host(rank_) == wiring.host(peer);
  return {one_host ? "modelled link inside the host" : "modelled network", shares_memory_with(peer)};
}

}  // namespace taxon::sim
