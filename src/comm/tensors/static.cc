#include "comm/tensors/static.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "base/cache_line.h"
#include "comm/tensors/alone.h"

namespace taxon::comm {
namespace {

/// Behind each place, with Integrity::Checked.
struct Trailer {
  std::uint64_t sequence = 0;
  std::uint64_t checksum = 0;
};

std::size_t stride_of(std::size_t size, const TensorOptions& options) {
  return round_to_line(size) + (options.integrity == Integrity::Checked ? round_to_line(sizeof(Trailer)) : 0);
}

}  // namespace

StaticSender::StaticSender(Communicator& group, TensorRoute route, TensorShape shape, TensorOptions options)
    : end_(group, route, options, TensorEnd::Role::Sender), shape_(shape), size_(shape.bytes()) {}

task::Task<std::unique_ptr<StaticSender>> StaticSender::open(Communicator& group, TensorRoute route,
                                                             TensorShape shape, TensorOptions options) {
  auto sender = std::make_unique<StaticSender>(group, route, shape, options);
  sender->released_ = sender->end_.transport().allot_signals(1);
  TensorEnd::Facts facts{.kind = TensorEnd::Kind::Static, .first_signal = sender->released_, .shape = shape};
  const auto theirs = co_await sender->end_.open(facts, nullptr);
  sender->arrived_ = theirs.facts.first_signal;
  sender->arena_ = theirs.arena;
  sender->slots_ = theirs.facts.slots;
  theirs.arena.check_bounds(sender->slots_, 0, options.depth * stride_of(sender->size_, options));
  const bool shared = sender->end_.transport().path(sender->end_.peer()).shared_memory;
  sender->end_.path = shared ? TensorPath::Written : TensorPath::Messages;
  if (shared) {
    const View theirs_mapped = sender->end_.transport().map(theirs.arena.payload);
    if (theirs_mapped.size() == theirs.arena.payload.size) sender->theirs_ = theirs_mapped;
  }
  co_return std::move(sender);
}

task::Task<void> StaticSender::send(ConstView tensor) {
  const bool plain = tensor.size() == size_ && !end_.checked() && !sending_;
  if (plain && !theirs_.empty() && send_at_once(tensor)) return task::Task<void>::nothing_left();
  return send_in_turn(tensor);
}

bool StaticSender::send_at_once(ConstView tensor) {
  const std::uint64_t sequence = sent_ + 1;
  if (!has_credit(sequence)) {
    seen_released_ = end_.look(released_);
    if (!has_credit(sequence)) return false;
  }
  std::memcpy(theirs_.data() + place_of(sequence), tensor.data(), size_);
  if (!end_.transport().raise_now({end_.peer(), arrived_}, sequence)) return false;
  end_.transport().count_stored(size_);
  sent_ = sequence;
  count_sent();
  return true;
}

task::Task<void> StaticSender::send_in_turn(ConstView tensor) {
  if (tensor.size() != size_)
    throw end_.error(ErrorKind::Mismatch,
                     fmt::format("{} bytes are no {}", tensor.size(), shape_.describe()));
  Alone alone(sending_, "StaticSender::send");
  const std::uint64_t sequence = ++sent_;
  if (!has_credit(sequence)) {
    net::AwaitSignalOp credit(end_.transport(), end_.peer(), end_.tag(sequence), released_,
                              sequence - end_.options().depth);
    co_await credit;
    seen_released_ = credit.seen;
  }
  if (end_.checked()) {
    co_await write_checked(tensor, place_of(sequence));
  } else {
    net::PutOp put(end_.transport(), tensor, &arena_.payload, place_of(sequence), {end_.peer(), arrived_},
                   sequence);
    co_await put;
  }
  count_sent();
}

bool StaticSender::has_credit(std::uint64_t sequence) const {
  return sequence <= seen_released_ + end_.options().depth;
}

std::size_t StaticSender::place_of(std::uint64_t sequence) const {
  return slots_.offset + sequence % end_.options().depth * stride_of(size_, end_.options());
}

void StaticSender::count_sent() {
  ++end_.counters.tensors;
  end_.counters.bytes += size_;
  if (end_.path == TensorPath::Written) end_.counters.copied += size_;
}

task::Task<void> StaticSender::write_checked(ConstView tensor, std::size_t slot) {
  net::Transport& transport = end_.transport();
  const net::RemoteSignal arrived{end_.peer(), arrived_}, begun{end_.peer(), arrived_ + 1};
  const Trailer trailer{sent_, checksum_of_tensor(tensor)};
  net::PutOp begin(transport, {}, nullptr, 0, begun, sent_);
  co_await begin;
  // As a writer of a sequence lock: whoever sees a byte of what follows sees that it began.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  net::PutOp put(transport, tensor, &arena_.payload, slot, begun, sent_);
  co_await put;
  if (tensor.is_phantom()) {
    net::PutOp arrive(transport, {}, nullptr, 0, arrived, sent_);
    co_await arrive;
    co_return;
  }
  net::PutOp end(transport, as_const_view(std::span(&trailer, 1)), &arena_.payload,
                 slot + round_to_line(size_), arrived, sent_);
  co_await end;
}

task::Task<void> StaticSender::close() {
  net::AwaitSignalOp all(end_.transport(), end_.peer(), end_.tag(sent_), released_, sent_);
  co_await all;
  auto agreed = end_.agree(std::byte{0}, TensorEnd::kClosing);
  co_await agreed;
}

StaticReceiver::StaticReceiver(Communicator& group, TensorRoute route, TensorShape shape,
                               TensorOptions options)
    : end_(group, route, options, TensorEnd::Role::Receiver),
      shape_(shape),
      size_(shape.bytes()),
      credits_(options.depth) {}

task::Task<std::unique_ptr<StaticReceiver>> StaticReceiver::open(Communicator& group, TensorArena& arena,
                                                                 TensorRoute route, TensorShape shape,
                                                                 TensorOptions options) {
  auto receiver = std::make_unique<StaticReceiver>(group, route, shape, options);
  receiver->arrived_ = receiver->end_.transport().allot_signals(2);
  auto placing = arena.allocate(options.depth * stride_of(receiver->size_, options),
                                "places of the tensors from " + receiver->end_.name());
  receiver->slots_ = co_await placing;
  TensorEnd::Facts facts{.kind = TensorEnd::Kind::Static,
                         .first_signal = receiver->arrived_,
                         .shape = shape,
                         .slots = receiver->slots_.remote()};
  const auto theirs = co_await receiver->end_.open(facts, &arena);
  receiver->released_ = theirs.facts.first_signal;
  const bool shared = receiver->end_.transport().path(receiver->end_.peer()).shared_memory;
  receiver->end_.path = shared ? TensorPath::Written : TensorPath::Messages;
  co_return std::move(receiver);
}

task::Task<ReceivedTensor> StaticReceiver::receive() {
  Alone alone(receiving_, "StaticReceiver::receive");
  const std::uint64_t sequence = received_ + 1;
  const TensorOptions& options = end_.options();
  net::AwaitSignalOp arrival(end_.transport(), end_.peer(), end_.tag(sequence), arrived_, sequence);
  co_await arrival;
  const View place = slots_.bytes().slice(place_of(sequence), size_);
  if (!place.is_phantom()) __builtin_prefetch(place.data());
  if (arrival.seen > credits_.given() + options.depth)
    throw end_.error(ErrorKind::Transport,
                     fmt::format("{} tensors have arrived, but only {} were released and {} fit: the sender "
                                 "writes over tensors that are in use",
                                 arrival.seen, credits_.given(), options.depth));
  received_ = sequence;
  ReceivedTensor tensor;
  tensor.bytes_ = place;
  tensor.sequence_ = sequence;
  tensor.shape_ = shape_;
  if (end_.checked()) check_arrival(tensor);
  ++end_.counters.tensors;
  end_.counters.bytes += size_;
  if (end_.path == TensorPath::Messages) end_.counters.copied += size_;
  co_return std::move(tensor);
}

std::size_t StaticReceiver::place_of(std::uint64_t sequence) const {
  return sequence % end_.options().depth * stride_of(size_, end_.options());
}

void StaticReceiver::check_arrival(const ReceivedTensor& tensor) const {
  if (tensor.bytes_.is_phantom()) return;
  Trailer trailer;
  std::memcpy(&trailer, tensor.bytes_.data() + round_to_line(size_), sizeof trailer);
  const std::uint64_t checksum = checksum_of_tensor(tensor.bytes_);
  if (trailer.sequence == tensor.sequence_ && trailer.checksum == checksum) return;
  throw end_.error(
      ErrorKind::Transport,
      fmt::format("tensor {} is damaged: its place holds number {}, with the checksum {:#x} instead "
                  "of {:#x}. Somebody wrote to memory that is not theirs.",
                  tensor.sequence_, trailer.sequence, checksum, trailer.checksum));
}

task::Task<void> StaticReceiver::release(ReceivedTensor tensor) {
  TAXON_CHECK(tensor.sequence_ != 0, "a tensor was released twice");
  if (end_.checked()) {
    // As a reader of a sequence lock: the consumer has read the bytes, now whether another write had begun.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (end_.look(arrived_ + 1) >= tensor.sequence_ + end_.options().depth)
      throw end_.error(ErrorKind::Transport,
                       fmt::format("tensor {} was written over while it was in use", tensor.sequence_));
  }
  if (!credits_.give(tensor.sequence_)) return task::Task<void>::nothing_left();
  const net::RemoteSignal released{end_.peer(), released_};
  if (end_.transport().raise_now(released, credits_.given())) return task::Task<void>::nothing_left();
  return tell(released, credits_.given());
}

task::Task<void> StaticReceiver::tell(net::RemoteSignal released, std::uint64_t count) {
  net::PutOp credit(end_.transport(), {}, nullptr, 0, released, count);
  co_await credit;
}

task::Task<void> StaticReceiver::close() {
  TAXON_CHECK(credits_.given() == received_, received_ - credits_.given(), " tensors are not released");
  auto agreed = end_.agree(std::byte{0}, TensorEnd::kClosing);
  co_await agreed;
}

}  // namespace taxon::comm
