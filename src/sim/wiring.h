#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "base/named.h"
#include "base/time.h"
#include "plan/cluster.h"
#include "sim/device_memory.h"

namespace taxon::sim {

/// One end of a link, or a switch: serves messages one after the other, in the order in which they come. A
/// token bucket of `burst` bytes that the link's rate fills lets what it holds through at once.
class Link {
 public:
  Link(std::string name, double bandwidth, double burst, std::size_t number)
      : name_(std::move(name)),
        ps_per_byte_(1e12 / bandwidth),
        number_(static_cast<std::uint32_t>(number)),
        burst_(time_of(burst)),
        paid_(Instant() - burst_) {}

  struct Turn {
    Instant begin, end;
  };
  /// The turn of a message that comes now, and is served for the time of its bytes, `factor` times as long,
  /// and for `overhead` before.
  Turn serve(Instant now, std::size_t bytes, double factor = 1, Duration overhead = Duration(0)) {
    const Instant begin = std::max(now, free_), over(kLongest);
    const Duration time = overhead + time_of(static_cast<double>(bytes) * factor);
    paid_ = std::min(std::max(paid_, begin - burst_) + time, over);
    free_ = std::min(std::max(paid_, begin + overhead), over);
    busy_ = std::min(busy_ + time, kLongest);
    bytes_ += bytes;
    ++messages_;
    return {begin, free_};
  }

  /// Counts what passed without being served here: collectives that are one event each.
  void count(std::uint64_t messages, std::uint64_t bytes, Duration busy) {
    messages_ += messages;
    bytes_ += bytes;
    busy_ = std::min(busy_ + busy, kLongest);
  }

  const std::string& name() const { return name_; }
  /// Its place among Wiring::links().
  std::uint32_t number() const { return number_; }
  double ps_per_byte() const { return ps_per_byte_; }
  /// What a full bucket lets through at once takes so long at the link's rate.
  Duration burst() const { return burst_; }
  std::uint64_t messages() const { return messages_; }
  std::uint64_t bytes() const { return bytes_; }
  /// Until now; what is queued will be served later.
  Duration busy(Instant now) const { return busy_ - std::max(Duration(0), free_ - now); }

 private:
  Duration time_of(double bytes) const { return from_picoseconds(bytes * ps_per_byte_); }
  std::string name_;
  double ps_per_byte_;
  std::uint32_t number_;
  Duration burst_;
  Instant free_{};  // the last message has passed
  Instant paid_;    // the rate has made up for everything that passed; at most burst_ behind
  Duration busy_{0};
  std::uint64_t messages_ = 0, bytes_ = 0;
};

/// What a piece of a message costs the processor of one end.
struct HandlingCost {
  Duration time{0};
  double ps_per_byte = 0;
  Duration of(std::size_t bytes) const {
    return time + from_picoseconds(static_cast<double>(bytes) * ps_per_byte);
  }
  bool any() const { return time > Duration(0) || ps_per_byte > 0; }
};

/// The way of a message between two ranks.
struct Route {
  Link* out = nullptr;          // of the sender
  std::array<Link*, 3> then{};  // switches and the receiver's end; ends with null
  Duration overhead{0}, latency{0};
  std::size_t eager = 0;
  std::size_t fragment = 0;  // in pieces of so many bytes; 0: whole
  HandlingCost send, receive;
  int from = 0, to = 0;  // hosts
  bool one_host() const { return from == to; }
};

/// The links of a cluster, and its ranks' memories. REQUIRES: plan::cluster_problems() found nothing.
class Wiring {
 public:
  Wiring(const plan::ClusterModel& cluster, int ranks);
  Wiring(const Wiring&) = delete;

  Route route(Rank from, Rank to) const;
  std::size_t ranks() const { return ranks_.size(); }
  int host(Rank rank) const { return ranks_[index(rank)].host; }
  const plan::HostPlace& place(Rank rank) const { return hosts_[static_cast<std::size_t>(host(rank))].place; }
  DeviceMemory& memory(Rank rank) { return memories_[index(rank)]; }
  const DeviceMemory& memory(Rank rank) const { return memories_[index(rank)]; }
  /// Every link, hosts first.
  const std::deque<Link>& links() const { return links_; }
  Link& link(std::size_t place) { return links_[place]; }

 private:
  struct Ends {
    Link* out = nullptr;
    Link* in = nullptr;
  };
  struct Cost {
    Duration overhead{0}, latency{0};
    std::size_t eager = 0, fragment = 0;
    HandlingCost send, receive;
  };
  struct Host {
    plan::HostPlace place;
    int leaf = 0;
    Cost inside, network;
    Ends shared_inside, shared_network;
  };
  struct Seat {
    int host = 0;
    Ends inside, network;
  };
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value()); }
  static Cost cost(const plan::LinkModel& link);
  Ends ends(const std::string& name, const plan::LinkModel& link);
  Link* add(std::string name, double bandwidth, std::int64_t burst = 0) {
    return &links_.emplace_back(std::move(name), bandwidth, static_cast<double>(burst), links_.size());
  }
  void add_switches(const plan::SwitchModel& model, const std::vector<plan::HostPlace>& places);

  std::deque<Link> links_;
  std::vector<Host> hosts_;
  std::vector<Seat> ranks_;
  std::vector<DeviceMemory> memories_;  // [rank]
  Link* backplane_ = nullptr;
  std::vector<Ends> leaves_;  // out: up, in: down
};

}  // namespace taxon::sim
