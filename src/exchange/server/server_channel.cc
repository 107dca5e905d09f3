#include "exchange/server/server_channel.h"

#include <fmt/format.h>

#include "comm/told.h"

namespace taxon::exchange {

ServerChannel::ServerChannel(comm::Communicator& group, ChannelPeer& peer, OwnedPart& part,
                             ServerUpdate& update, comm::FailureMonitor* failures)
    : part_(part),
      update_(update),
      channel_(group, peer, static_cast<std::uint32_t>(part.id()), part.direct(), ServerWire::kAnswers,
               ServerWire::kContributions, failures),
      peer_(peer),
      wire_(DType::UInt8, part.asks ? 0 : part.contribution_wire.value_or(0), update.weights().bytes()) {}

task::Task<Contribution> ServerChannel::receive(const ConsistencyController* counts) {
  const DType type = update_.weights().type();
  const bool coded = part_.contribution_wire && !part_.asks;
  Contribution came;
  View into;
  if (!channel_.placed()) {
    came.values = part_.take_contribution();
    into = coded ? wire_.bytes() : came.values->bytes();
  }
  auto receiving = channel_.receive(into, part_.contribution_wire ? DType::UInt8 : type);
  came.head = co_await receiving;
  check(came.head, *counts);
  if (came.closes()) co_return came;
  if (coded) {
    co_await update_.decode(&part_, peer_.member, came.at(ServerWire::Round), into, came.values->bytes());
  }
  if (!channel_.placed()) co_return came;
  if (came.at(ServerWire::Written) > 0 && window_.empty())
    throw comm::told_wrong(channel_.rank(), "hand in",
                           part_.bucket->name + " was written to where a contribution waits for its update");
  if (channel_.read_credit(part_.range.size * size_of(type))) {
    came.values = Buffer(window_.back().release(), ReturnArena{&window_});
    window_.pop_back();
  } else {
    came.values = part_.values.take();
  }
  co_await channel_.receive_values(came.values->bytes(), type);
  co_return came;
}

View ServerChannel::place_of_answer() {
  const View place = update_.answers_values() ? channel_.place() : View();
  in_place_ = !place.empty();
  return place;
}

task::Task<void> ServerChannel::reply(ServerWire::Head head, const tensor::Arena* answer) {
  WindowDescriptor next;
  if (!window_.empty()) next = describe_window(*windows_, window_range_, peer_.signal);
  net::Transport& transport = channel_.transport();
  if (in_place_ && channel_.rank() != transport.rank()) transport.count_stored(answer->bytes().size());
  const ConstView values = std::exchange(in_place_, false) ? ConstView() : answer->bytes();
  co_await channel_.send(head, values, answer->type(), next);
  channel_.next_use();
}

void ServerChannel::open_windows(net::Transport& transport, const std::vector<ServerChannel*>& channels,
                                 std::vector<ChannelPeer>* workers, tensor::Arena* windows) {
  std::size_t total = 0;
  DType type = DType::Float32;
  for (ServerChannel* channel : channels) {
    if (!channel->channel_.placed()) continue;
    type = channel->update_.weights().type();
    channel->window_range_ = {total, channel->part_.range.size};
    const std::size_t line = tensor::ArenaLayout::kAlignment / size_of(type);
    total += (channel->part_.range.size + line - 1) / line * line;
  }
  if (total == 0) return;
  const std::uint32_t first = transport.allot_signals(static_cast<std::uint32_t>(workers->size()));
  for (ChannelPeer& worker : *workers) worker.signal = first + static_cast<std::uint32_t>(worker.member);
  try {
    *windows = tensor::Arena(transport, type, total);
  } catch (const Error&) {
    return;
  }
  for (ServerChannel* channel : channels) {
    if (channel->window_range_.size == 0) continue;
    channel->windows_ = windows;
    channel->window_.push_back(
        std::make_unique<tensor::Arena>(tensor::Arena::over(type, windows->bytes(channel->window_range_))));
  }
}

void ServerChannel::check(const ServerWire::Head& head, const ConsistencyController& counts) const {
  // Who is ahead of all others may have got so far elsewhere; no run goes ahead of one bucket so much.
  constexpr std::int64_t kMostAhead = 1 << 20;
  const std::int64_t kind = head[ServerWire::KindOf];
  auto refuse = [&](const std::string& what) {
    throw comm::told_wrong(channel_.rank(), "hand in", fmt::format("{}, of {}", what, part_.bucket->name));
  };
  if (kind == ServerWire::Close) return;
  if (kind != ServerWire::Contribution) refuse(fmt::format("a head of kind {}", kind));
  const std::int64_t clock = head[ServerWire::Clock], base = head[ServerWire::Base];
  if (clock < 0 || clock > counts.furthest() + kMostAhead)
    refuse(fmt::format("clock {} where {} is the furthest", clock, counts.furthest()));
  if (base < 0 || base > counts.version())
    refuse(fmt::format("values after {} updates of {}", base, counts.version()));
  const std::int64_t number = head[ServerWire::Number], before = counts.handed_in(peer_.member);
  if (number < 0 || number > before) refuse(fmt::format("contribution {} after {}", number, before));
  const std::int64_t samples = head[ServerWire::Samples], mean_over = head[ServerWire::MeanOver];
  if (!comm::is_count(samples) || !comm::is_count(mean_over) || mean_over == 0)
    refuse(fmt::format("{} samples of a mean over {}", samples, mean_over));
  if (!comm::is_count(head[ServerWire::Round])) refuse(fmt::format("round {}", head[ServerWire::Round]));
}

}  // namespace taxon::exchange
