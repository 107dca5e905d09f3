#pragma once

#include <map>

#include "sim/network.h"

namespace taxon::sim {

/// One rank's end of a Network.
class Network::RankTransport final : public net::Transport {
 public:
  RankTransport(Network& network, Rank rank);
  ~RankTransport() override;

  void start(net::SendOp& op) override;
  void start(net::RecvOp& op) override;
  void start(net::PutOp& op) override;
  void start(net::AwaitSignalOp& op) override;
  void forget(net::Op& op) override;

  net::Region allocate(std::size_t size) override;
  View map(const net::RemoteRegion& region) override;
  std::uint32_t signals() const override { return static_cast<std::uint32_t>(values_.size()); }
  std::uint64_t signal(std::uint32_t index) const override { return values_[index]; }
  net::Path path(Rank peer) const override;
  const net::Traffic& traffic() const override { return traffic_; }
  void count_stored(std::size_t bytes) override { traffic_.bytes_sent += bytes; }
  Rank rank() const override { return rank_; }
  int world_size() const override { return network_.size(); }
  task::Executor& executor() override { return network_.queue_; }
  task::PendingOps& pending() override { return network_.pending(rank_); }

  void die(Instant when) { died_ = when; }
  Instant died() const { return died_; }
  void deliver_message(Message& message);
  void deliver_put(Message& message);

 private:
  class Memory;
  struct Block;
  void raise(std::uint32_t index, std::uint64_t value);
  bool shares_memory_with(Rank peer) const;
  DeviceMemory& memory() { return network_.wiring_.memory(rank_); }

  Network& network_;
  Rank rank_;
  Instant died_ = Instant::max();
  net::Mailbox<Message> mailbox_;
  std::vector<std::uint64_t> values_;
  std::vector<net::Op*> waiters_;                           // [signal]: list of AwaitSignalOp
  std::map<std::uint64_t, std::unique_ptr<Block>> blocks_;  // by address
  std::vector<std::unique_ptr<Block>> mapped_;              // gone here, but peers may still look at them
  std::uint64_t next_phantom_;
  net::Traffic traffic_;
};

}  // namespace taxon::sim
