#include "sim/network.h"

#include <algorithm>

#include "sim/rank_transport.h"

namespace taxon::sim {

Network::Network(EventQueue& queue, Wiring& wiring, Faults& faults, int ranks, NetworkOptions options)
    : queue_(queue),
      wiring_(wiring),
      faults_(faults),
      options_(options),
      left_(*this, &Network::left),
      arrive_(*this, &Network::arrive),
      release_(*this, &Network::release),
      travel_(*this, &Network::travel),
      deliver_(*this, &Network::deliver),
      cpu_costs_(static_cast<std::size_t>(ranks)) {
  for (int i = 0; i < ranks; ++i) {
    pending_.push_back(std::make_unique<task::PendingOps>());
    ranks_.push_back(std::make_unique<RankTransport>(*this, Rank(i)));
  }
}

Network::~Network() = default;

void Network::set_thread(Rank rank, Thread& thread) {
  cpu_costs_[static_cast<std::size_t>(rank.value())] = std::make_unique<MessageCpuCost>(*this, thread);
}

net::Transport& Network::transport(Rank rank) { return at(rank); }
task::PendingOps& Network::pending(Rank rank) { return *pending_[static_cast<std::size_t>(rank.value())]; }

void Network::kill(Rank rank) { at(rank).die(queue_.now()); }

bool Network::lost(const Message& message) {
  return message.dropped || at(message.source).died() < message.left ||
         at(message.target).died() <= queue_.now();
}

void Network::send(Message& message) {
  message.travelling = message.size;
  if (!message.route.send.any() || cpu_cost(message.source) == nullptr) return depart(message);
  message.op->request = &message;
  cut(message);
  cpu_cost(message.source)->push(message, MessageCpuCost::End::Sender);
}

/// Sends all but the last piece as messages of their own, which are thrown away when they arrive. Links and
/// threads keep their order, so the last piece is the last.
void Network::cut(Message& message) {
  const std::size_t fragment = message.route.fragment;
  if (fragment == 0) return;
  for (; message.travelling > fragment; message.travelling -= fragment) {
    Message& piece = pool_.take();
    piece.source = message.source;
    piece.target = message.target;
    piece.tag = message.tag;
    piece.is_put = message.is_put;
    piece.is_part = true;
    piece.size = piece.travelling = fragment;
    piece.route = message.route;
    cpu_cost(message.source)->push(piece, MessageCpuCost::End::Sender);
  }
}

void Network::handled(Message& message, MessageCpuCost::End end) {
  end == MessageCpuCost::End::Sender ? depart(message) : hand_over(message);
}

/// The sender's end of the link; everything later by events.
void Network::depart(Message& message) {
  const Instant now = queue_.now();
  const Route& route = message.route;
  Link::Turn turn{now, now};
  if (route.out != nullptr)
    turn = route.out->serve(now, message.travelling,
                            route.one_host() ? 1.0 : faults_.link_factor(route.from, now), route.overhead);
  message.service = -1;
  if (options_.timeline != nullptr && route.out != nullptr) note(message, *route.out, turn);
  message.left = turn.end;
  message.last = turn.end + route.latency;
  if (message.size <= route.eager || message.left == now) {
    left(message);
  } else if (message.op != nullptr) {
    message.op->request = &message;
    left_.at(message.left, message);
  }
  if (faults_.holds() || route.then[0] != nullptr)
    arrive_.at(turn.begin + route.overhead + route.latency, message);
  else
    deliver_.at(message.last, message);
}

void Network::note(Message& message, const Link& link, Link::Turn turn) {
  ResourceTimeline::Service service;
  service.link = link.number();
  service.source = message.source.value();
  service.target = message.target.value();
  service.unit = message.tag.unit;
  service.bytes = message.travelling;
  service.came = queue_.now();
  service.begin = turn.begin;
  service.end = turn.end;
  service.before = message.service;
  message.service = options_.timeline->add(service);
}

void Network::left(Message& message) {
  if (message.op == nullptr) return;
  message.copy_payload();
  std::exchange(message.op, nullptr)->complete();
}

std::uint64_t Network::order_key(const Message& message) {
  std::uint64_t pair = static_cast<std::uint64_t>(message.source.value()) << 32 |
                       static_cast<std::uint32_t>(message.target.value());
  std::uint64_t tag = message.is_put ? 0 : net::hash_match(message.source, message.tag);
  return tag ^ (pair + message.is_put) * 0x9e3779b97f4a7c15ULL;
}

/// The first byte has crossed the sender's wire. Cuts and delays hold it here, in order among messages with
/// one source, target and tag, and among puts with one source and target.
void Network::arrive(Message& message) {
  if (!faults_.holds()) return travel(message);
  const Instant now = queue_.now();
  Instant due = now + faults_.delay({message.target.value(), message.route.to}, now);
  if (auto whole = faults_.cut_until(message.route.from, message.route.to, due)) due = *whole;
  if (due == Instant::max()) return;  // it never comes, nor does anything behind it while the link is cut
  auto [held, fresh] = held_.try_emplace(order_key(message));
  if (fresh && due == now) {
    held_.erase(held);
    return travel(message);
  }
  held->second.due = std::max(held->second.due, due);
  ++held->second.count;
  release_.at(held->second.due, message);
}

void Network::release(Message& message) {
  auto held = held_.find(order_key(message));
  TAXON_CHECK(held != held_.end(), "a delivery was not held");
  if (--held->second.count == 0) held_.erase(held);
  message.last = std::max(message.last, queue_.now());
  travel(message);
}

/// The first byte stands before the next switch or the receiver's end.
void Network::travel(Message& message) {
  Instant now = queue_.now();
  while (message.hop < message.route.then.size() && message.route.then[message.hop] != nullptr) {
    const bool end =
        message.hop + 1 == message.route.then.size() || message.route.then[message.hop + 1] == nullptr;
    const double factor = end && !message.route.one_host() ? faults_.link_factor(message.route.to, now) : 1.0;
    Link& link = *message.route.then[message.hop++];
    Link::Turn turn = link.serve(now, message.travelling, factor);
    if (options_.timeline != nullptr) note(message, link, turn);
    message.last = std::max(message.last, turn.end);
    if (!end && turn.begin > now) return travel_.at(turn.begin, message);
  }
  deliver_.at(message.last, message);
}

void Network::deliver(Message& message) {
  const bool stored = message.is_put && message.route.one_host();  // by its sender
  if (!stored && message.route.receive.any() && cpu_cost(message.target) != nullptr)
    return cpu_cost(message.target)->push(message, MessageCpuCost::End::Receiver);
  hand_over(message);
}

void Network::hand_over(Message& message) {
  if (message.is_part || lost(message)) return pool_.give_back(message);
  if (options_.timeline != nullptr) options_.timeline->arrived(message.service, queue_.now());
  ++delivered_;
  queue_.note(static_cast<std::uint64_t>(message.source.value()) << 40 ^
              static_cast<std::uint64_t>(message.target.value()) << 20 ^ message.size);
  message.is_put ? at(message.target).deliver_put(message) : at(message.target).deliver_message(message);
}

}  // namespace taxon::sim
