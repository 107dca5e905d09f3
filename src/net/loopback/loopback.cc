#include "net/loopback/loopback.h"

#include <algorithm>
#include <cstring>

#include "net/heap_region.h"
#include "net/kept_message.h"
#include "net/mailbox.h"
#include "net/mismatch.h"
#include "net/region_table.h"

namespace taxon::net {
namespace {

void copy(View to, ConstView from) {
  if (from.empty() || from.is_phantom() || to.is_phantom()) return;
  std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

class LoopbackWorld::RankTransport final : public Transport {
 public:
  RankTransport(LoopbackWorld& world, Rank rank)
      : world_(world), rank_(rank), values_(world.options_.signals), waiters_(world.options_.signals) {}
  ~RankTransport() override {
    TAXON_CHECK(regions_.size() == 0, regions_.size(), " regions outlive their transport");
    while (KeptMessage* message = mailbox_.take_any()) kept_.give_back(message);
  }

  void start(SendOp& op) override;
  void start(RecvOp& op) override;
  void start(PutOp& op) override;
  void start(AwaitSignalOp& op) override;
  void forget(Op& op) override;

  Region allocate(std::size_t size) override { return allocate_on_heap(regions_, rank_, size); }
  View map(const RemoteRegion& region) override {
    if (!world_.options_.share_memory) return {};
    return View(reinterpret_cast<std::byte*>(region.address), region.size);
  }
  std::uint32_t signals() const override { return static_cast<std::uint32_t>(values_.size()); }
  std::uint64_t signal(std::uint32_t index) const override { return values_[index]; }
  Path path(Rank) const override { return {"loopback", world_.options_.share_memory}; }
  const Traffic& traffic() const override { return traffic_; }
  void count_stored(std::size_t bytes) override { traffic_.bytes_sent += bytes; }
  Rank rank() const override { return rank_; }
  int world_size() const override { return world_.size(); }
  task::Executor& executor() override { return world_.executor_; }
  task::PendingOps& pending() override { return world_.pending(rank_); }

 private:
  RankTransport& at(Rank peer) {
    TAXON_CHECK(peer.value() >= 0 && peer.value() < world_.size(), "rank ", peer.value());
    return *world_.ranks_[static_cast<std::size_t>(peer.value())];
  }
  void keep(Rank source, const SendOp& op);
  void raise(std::uint32_t index, std::uint64_t value);

  LoopbackWorld& world_;
  Rank rank_;
  Mailbox<KeptMessage> mailbox_;
  KeptMessages kept_;
  std::vector<std::uint64_t> values_;
  std::vector<Op*> waiters_;  // [signal]: list of AwaitSignalOp
  RegionTable regions_;
  Traffic traffic_;
};

void LoopbackWorld::RankTransport::start(SendOp& op) {
  RankTransport& receiver = at(op.peer);
  if (op.peer != rank_) traffic_.count_sent(op.payload.size());
  receiver.traffic_.bytes_received += op.payload.size();
  if (RecvOp* receive = receiver.mailbox_.take_receive(rank_, op.tag)) {
    auto error = check_match(*receive, receiver.rank_, {op.payload.size(), op.type});
    if (!error) copy(receive->payload, op.payload);
    world_.complete_later(*receive, error);
  } else {
    receiver.keep(rank_, op);
  }
  op.complete();
}

void LoopbackWorld::RankTransport::keep(Rank source, const SendOp& op) {
  KeptMessage* message = kept_.take();
  message->source = source;
  message->tag = op.tag;
  message->type = op.type;
  message->size = op.payload.size();
  if (!op.payload.is_phantom() && !op.payload.empty())
    message->bytes.assign(op.payload.data(), op.payload.data() + op.payload.size());
  mailbox_.keep(*message);
}

void LoopbackWorld::RankTransport::start(RecvOp& op) {
  TAXON_CHECK(op.peer.value() >= 0 && op.peer.value() < world_.size(), "rank ", op.peer.value());
  KeptMessage* message = mailbox_.take_message(op.peer, op.tag);
  if (message == nullptr) return mailbox_.post(op);
  auto error = check_match(op, rank_, {message->size, message->type});
  if (!error && !message->bytes.empty()) copy(op.payload, ConstView(message->bytes.data(), message->size));
  kept_.give_back(message);
  op.complete(error);
}

void LoopbackWorld::RankTransport::start(PutOp& op) {
  RankTransport& owner = at(op.signal.owner);
  if (op.peer != rank_) traffic_.count_sent(op.payload.size());
  owner.traffic_.bytes_received += op.payload.size();
  if (!op.payload.empty()) {
    std::uint64_t to = op.region->address + op.offset;
    TAXON_CHECK(owner.regions_.contains(to, op.payload.size()), "a put into a region of rank ",
                op.peer.value(), " that is gone");
    copy(View(reinterpret_cast<std::byte*>(to), op.payload.size()), op.payload);
  }
  owner.raise(op.signal.index, op.value);
  op.complete();
}

void LoopbackWorld::RankTransport::raise(std::uint32_t index, std::uint64_t value) {
  TAXON_CHECK(index < values_.size(), "signal ", index, " of ", values_.size());
  values_[index] = std::max(values_[index], value);
  Op** link = &waiters_[index];
  while (Op* waiter = *link) {
    if (static_cast<AwaitSignalOp*>(waiter)->value > values_[index]) {
      link = &waiter->next_in_queue;
      continue;
    }
    *link = waiter->next_in_queue;
    static_cast<AwaitSignalOp*>(waiter)->seen = values_[index];
    world_.complete_later(*waiter, nullptr);
  }
}

void LoopbackWorld::RankTransport::start(AwaitSignalOp& op) {
  op.seen = values_[op.index];
  if (op.seen >= op.value) return op.complete();
  op.next_in_queue = std::exchange(waiters_[op.index], &op);
}

void LoopbackWorld::RankTransport::forget(Op& op) {
  if (world_.completions_.forget(op)) return;
  if (auto* receive = dynamic_cast<RecvOp*>(&op)) {
    TAXON_CHECK(mailbox_.forget(*receive), "an unknown receive was cancelled");
    return;
  }
  auto* await = dynamic_cast<AwaitSignalOp*>(&op);
  TAXON_CHECK(await != nullptr, "sends and puts are done at once");
  for (Op** link = &waiters_[await->index]; *link != nullptr; link = &(*link)->next_in_queue)
    if (*link == &op) {
      *link = op.next_in_queue;
      return;
    }
}

LoopbackWorld::LoopbackWorld(task::Executor& executor, int size, LoopbackOptions options)
    : executor_(executor), options_(options), waker_(executor, [this] { completions_.run(); }) {
  TAXON_CHECK(size > 0, "size=", size);
  for (int i = 0; i < size; ++i) {
    pending_.push_back(std::make_unique<task::PendingOps>());
    ranks_.push_back(std::make_unique<RankTransport>(*this, Rank(i)));
  }
}

LoopbackWorld::~LoopbackWorld() = default;

Transport& LoopbackWorld::transport(Rank rank) { return *ranks_.at(static_cast<std::size_t>(rank.value())); }
task::PendingOps& LoopbackWorld::pending(Rank rank) {
  return *pending_.at(static_cast<std::size_t>(rank.value()));
}

void LoopbackWorld::complete_later(Op& op, std::exception_ptr error) {
  completions_.push(op, std::move(error));
  waker_.wake(executor_.now());
}

}  // namespace taxon::net
