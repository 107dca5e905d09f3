#include "net/loopback/loopback.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "net/mailbox.h"
#include "net/mismatch.h"

namespace taxon::net {
namespace {

constexpr std::size_t kAlignment = 64;
/// A kept message's buffer is reused when it is at most this large; larger ones go back to the heap.
constexpr std::size_t kReusedBuffer = 64 << 10;

struct Message {
  Rank source;
  Tag tag;
  DType type = DType::Float32;
  std::size_t size = 0;
  std::vector<std::byte> bytes;  // empty for a phantom
  Message* next = nullptr;
};

void copy(View to, ConstView from) {
  if (from.empty() || from.is_phantom() || to.is_phantom()) return;
  std::memcpy(to.data(), from.data(), from.size());
}

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

}  // namespace

/// The world's own coroutine: resumed by the executor, it completes what is due.
struct LoopbackWorld::Waker {
  struct promise_type {
    Waker get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  std::coroutine_handle<> handle;
};

class LoopbackWorld::RankTransport final : public Transport {
 public:
  RankTransport(LoopbackWorld& world, Rank rank)
      : world_(world), rank_(rank), values_(world.options_.signals), waiters_(world.options_.signals) {}
  ~RankTransport() override {
    TAXON_CHECK(regions_.empty(), regions_.size(), " regions outlive their transport");
    while (Message* message = mailbox_.take_any()) delete message;
    while (Message* message = std::exchange(free_, free_ ? free_->next : nullptr)) delete message;
  }

  void start(SendOp& op) override;
  void start(RecvOp& op) override;
  void start(PutOp& op) override;
  void start(AwaitSignalOp& op) override;
  void forget(Op& op) override;

  Region allocate(std::size_t size) override;
  View map(const RemoteRegion& region) override {
    if (!world_.options_.share_memory) return {};
    return View(reinterpret_cast<std::byte*>(region.address), region.size);
  }
  std::uint32_t signals() const override { return static_cast<std::uint32_t>(values_.size()); }
  Path path(Rank) const override { return {"loopback", world_.options_.share_memory}; }
  const Traffic& traffic() const override { return traffic_; }
  void count_stored(std::size_t bytes) override { traffic_.bytes_sent += bytes; }
  Rank rank() const override { return rank_; }
  int world_size() const override { return world_.size(); }
  task::Executor& executor() override { return world_.executor_; }
  task::Waits& waits() override { return world_.waits(rank_); }

 private:
  class Memory;
  RankTransport& at(Rank peer) {
    TAXON_CHECK(peer.value() >= 0 && peer.value() < world_.size(), "rank ", peer.value());
    return *world_.ranks_[static_cast<std::size_t>(peer.value())];
  }
  void keep(Rank source, const SendOp& op);
  void raise(std::uint32_t index, std::uint64_t value);
  bool owns(std::uint64_t address, std::size_t size) const;

  LoopbackWorld& world_;
  Rank rank_;
  Mailbox<Message> mailbox_;
  Message* free_ = nullptr;
  std::vector<std::uint64_t> values_;
  std::vector<Op*> waiters_;                      // [signal]: list of AwaitSignalOp
  std::map<std::uint64_t, std::size_t> regions_;  // address to size
  Traffic traffic_;
};

class LoopbackWorld::RankTransport::Memory final : public Region::Impl {
 public:
  Memory(RankTransport& owner, std::byte* memory, std::size_t size)
      : owner_(owner), memory_(memory), size_(size) {
    owner_.regions_.emplace(address(), size);
  }
  ~Memory() override { owner_.regions_.erase(address()); }
  View bytes() const override { return View(memory_.get(), size_); }
  RemoteRegion share() const override { return {owner_.rank_, address(), size_, {}}; }

 private:
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_.get()); }
  RankTransport& owner_;
  std::unique_ptr<std::byte, FreeMemory> memory_;
  std::size_t size_;
};

void LoopbackWorld::RankTransport::start(SendOp& op) {
  RankTransport& receiver = at(op.peer);
  ++traffic_.messages_sent;
  traffic_.bytes_sent += op.payload.size();
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
  Message* message = free_;
  if (message != nullptr)
    free_ = message->next;
  else
    message = new Message;
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
  Message* message = mailbox_.take_message(op.peer, op.tag);
  if (message == nullptr) return mailbox_.post(op);
  auto error = check_match(op, rank_, {message->size, message->type});
  if (!error && !message->bytes.empty()) copy(op.payload, ConstView(message->bytes.data(), message->size));
  message->bytes.clear();
  if (message->bytes.capacity() > kReusedBuffer) message->bytes = {};
  message->next = std::exchange(free_, message);
  op.complete(error);
}

void LoopbackWorld::RankTransport::start(PutOp& op) {
  RankTransport& owner = at(op.signal.owner);
  ++traffic_.messages_sent;
  traffic_.bytes_sent += op.payload.size();
  owner.traffic_.bytes_received += op.payload.size();
  if (!op.payload.empty()) {
    std::uint64_t to = op.region->address + op.offset;
    TAXON_CHECK(owner.owns(to, op.payload.size()), "a put into a region of rank ", op.peer.value(),
                " that is gone");
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
    world_.complete_later(*waiter, nullptr);
  }
}

void LoopbackWorld::RankTransport::start(AwaitSignalOp& op) {
  if (values_[op.index] >= op.value) return op.complete();
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

Region LoopbackWorld::RankTransport::allocate(std::size_t size) {
  TAXON_CHECK(size > 0, "an empty region");
  std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw Error(ErrorKind::Transport, "out of memory for a region");
  std::memset(memory, 0, rounded);
  return Region(std::make_unique<Memory>(*this, memory, size));
}

bool LoopbackWorld::RankTransport::owns(std::uint64_t address, std::size_t size) const {
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return false;
  auto region = std::prev(after);
  return address - region->first + size <= region->second;
}

LoopbackWorld::LoopbackWorld(task::Executor& executor, int size, LoopbackOptions options)
    : executor_(executor), options_(options) {
  TAXON_CHECK(size > 0, "size=", size);
  waker_ = wake().handle;
  for (int i = 0; i < size; ++i) {
    waits_.push_back(std::make_unique<task::Waits>());
    ranks_.push_back(std::make_unique<RankTransport>(*this, Rank(i)));
  }
}

LoopbackWorld::~LoopbackWorld() {
  if (waking_) executor_.cancel(wake_timer_);
  ranks_.clear();
  waker_.destroy();
}

Transport& LoopbackWorld::transport(Rank rank) { return *ranks_.at(static_cast<std::size_t>(rank.value())); }
task::Waits& LoopbackWorld::waits(Rank rank) { return *waits_.at(static_cast<std::size_t>(rank.value())); }

LoopbackWorld::Waker LoopbackWorld::wake() {
  for (;;) {
    waking_ = false;
    completions_.run();
    co_await std::suspend_always{};
  }
}

void LoopbackWorld::complete_later(Op& op, std::exception_ptr error) {
  completions_.push(op, std::move(error));
  if (std::exchange(waking_, true)) return;
  wake_timer_ = executor_.resume_at(executor_.now(), waker_);
}

}  // namespace taxon::net
