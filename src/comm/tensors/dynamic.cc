#include "comm/tensors/dynamic.h"

#include <fmt/format.h>

#include <cstring>

#include "comm/kernels.h"
#include "comm/tensors/alone.h"
#include "comm/told.h"

namespace taxon::comm {
namespace {

constexpr std::uint32_t kMapping = 2;

/// What the sender writes for each tensor into one of `depth` places, which take turns.
struct Metadata {
  std::uint64_t sequence = 0;
  RemoteBlock block;
  TensorShape shape;
  std::uint64_t checksum = 0;
};

/// By memcpy, which goes past the cache where a tensor is larger than it.
tensor::Kernel copy_tensor(View target, ConstView source) {
  tensor::Kernel kernel;
  kernel.name = "copy";
  kernel.cost = {0, 2 * target.size()};
  kernel.body = [=](tensor::Milestones&) {
    if (!target.empty()) std::memcpy(target.data(), source.data(), target.size());
  };
  const bool phantom = target.is_phantom() || source.is_phantom();
  kernel.runs = phantom ? tensor::Kernel::Body::OnPayload : tensor::Kernel::Body::Always;
  return kernel;
}

task::Task<void> copy(Communicator& group, View target, ConstView source) {
  ExchangeKernel work(group, copy_tensor(target, source));
  if (work.done()) co_return;
  co_await work.finished();
}

}  // namespace

DynamicSender::DynamicSender(Communicator& group, TensorArena& arena, TensorRoute route,
                             TensorOptions options)
    : end_(group, route, options, TensorEnd::Role::Sender), arena_(arena) {
  arena_.add(*this);
}

DynamicSender::~DynamicSender() { arena_.remove(*this); }

task::Task<std::unique_ptr<DynamicSender>> DynamicSender::open(Communicator& group, TensorArena& arena,
                                                               TensorRoute route, TensorOptions options) {
  auto sender = std::make_unique<DynamicSender>(group, arena, route, options);
  sender->released_ = sender->end_.transport().allot_signals(1);
  TensorEnd::Facts facts{.kind = TensorEnd::Kind::Dynamic, .first_signal = sender->released_};
  const auto theirs = co_await sender->end_.open(facts, &arena);
  sender->arrived_ = theirs.facts.first_signal;
  sender->there_ = theirs.arena;
  sender->metadata_ = theirs.facts.control;
  if (sender->metadata_ > theirs.arena.control.size ||
      options.depth * sizeof(Metadata) > theirs.arena.control.size - sender->metadata_)
    throw sender->end_.error(ErrorKind::Mismatch, "the receiver's metadata lie outside of its arena");
  auto agreed = sender->end_.agree(std::byte{0}, kMapping);
  const std::byte told = co_await agreed;
  const auto path = static_cast<TensorPath>(told);
  if (path != TensorPath::ReadInPlace && path != TensorPath::ReadCopied && path != TensorPath::Messages)
    throw told_wrong(sender->end_.peer(), "tensor channel", "a way of reading that is none");
  sender->end_.path = path;
  co_return std::move(sender);
}

task::Task<void> DynamicSender::send(TensorBlock tensor, TensorShape shape) {
  const View bytes = tensor.bytes();
  if (shape.checked_bytes() != bytes.size())
    throw end_.error(ErrorKind::Mismatch,
                     fmt::format("a block of {} bytes holds no {}", bytes.size(), shape.describe()));
  Alone alone(sending_, "DynamicSender::send");
  net::Transport& transport = end_.transport();
  const std::uint64_t sequence = ++sent_, depth = end_.options().depth;
  if (sequence > depth) {
    net::AwaitSignalOp credit(transport, end_.peer(), end_.tag(sequence), released_, sequence - depth);
    co_await credit;
  }
  reclaim();
  Metadata metadata{sequence, tensor.remote(), shape, end_.checked() ? checksum_of_tensor(bytes) : 0};
  lent_.push_back({sequence, tensor});
  net::PutOp put(transport, as_view(std::span(&metadata, 1)), &there_.control,
                 metadata_ + sequence % depth * sizeof metadata, {end_.peer(), arrived_}, sequence);
  co_await put;
  ++end_.counters.tensors;
  end_.counters.bytes += bytes.size();
  if (end_.path != TensorPath::Messages) co_return;
  net::SendOp message(transport, end_.peer(), end_.tag(sequence), bytes, shape.type);
  co_await message;
}

task::Task<void> DynamicSender::send_copy(ConstView tensor, TensorShape shape) {
  if (shape.checked_bytes() != tensor.size())
    throw end_.error(ErrorKind::Mismatch, fmt::format("{} bytes are no {}", tensor.size(), shape.describe()));
  auto allocating = arena_.allocate(tensor.size(), "a copy for " + end_.name());
  TensorBlock block = co_await allocating;
  auto copied = copy(end_.group(), block.bytes(), tensor);
  co_await copied;
  end_.counters.copied += tensor.size();
  co_await send(std::move(block), shape);
}

void DynamicSender::reclaim() {
  if (lent_.empty()) return;
  const std::uint64_t released = end_.look(released_);
  while (!lent_.empty() && lent_.front().sequence <= released) lent_.pop_front();
}

task::Task<void> DynamicSender::wait_for_release() {
  TAXON_CHECK(lends(), "nothing is out");
  const std::uint64_t oldest = lent_.front().sequence;
  net::AwaitSignalOp back(end_.transport(), end_.peer(), end_.tag(oldest), released_, oldest);
  co_await back;
  reclaim();
}

task::Task<void> DynamicSender::close() {
  net::AwaitSignalOp all(end_.transport(), end_.peer(), end_.tag(sent_), released_, sent_);
  co_await all;
  reclaim();
  auto agreed = end_.agree(std::byte{0}, TensorEnd::kClosing);
  co_await agreed;
}

struct DynamicReceiver::Incoming : Metadata {};

DynamicReceiver::DynamicReceiver(Communicator& group, TensorArena& arena, TensorRoute route,
                                 TensorOptions options)
    : end_(group, route, options, TensorEnd::Role::Receiver),
      arena_(arena),
      metadata_(arena.take_control(options.depth * sizeof(Metadata))),
      credits_(options.depth) {}

DynamicReceiver::~DynamicReceiver() { arena_.give_control(metadata_); }

task::Task<std::unique_ptr<DynamicReceiver>> DynamicReceiver::open(Communicator& group, TensorArena& arena,
                                                                   TensorRoute route, TensorOptions options,
                                                                   TensorRead read) {
  auto receiver = std::make_unique<DynamicReceiver>(group, arena, route, options);
  receiver->arrived_ = receiver->end_.transport().allot_signals(1);
  TensorEnd::Facts facts{
      .kind = TensorEnd::Kind::Dynamic, .first_signal = receiver->arrived_, .control = receiver->metadata_};
  const auto theirs = co_await receiver->end_.open(facts, &arena);
  receiver->released_ = theirs.facts.first_signal;
  receiver->there_ = theirs.arena;
  receiver->mapped_ = MappedArena(receiver->end_.transport(), receiver->there_);
  receiver->end_.path = !receiver->mapped_           ? TensorPath::Messages
                        : read == TensorRead::Copied ? TensorPath::ReadCopied
                                                     : TensorPath::ReadInPlace;
  co_await receiver->end_.agree(static_cast<std::byte>(receiver->end_.path), kMapping);
  co_return std::move(receiver);
}

DynamicReceiver::Incoming DynamicReceiver::read_metadata(std::uint64_t sequence) const {
  Incoming incoming;
  const std::uint64_t place = sequence % end_.options().depth;
  std::memcpy(static_cast<void*>(&incoming), arena_.control().data() + metadata_ + place * sizeof(Metadata),
              sizeof(Metadata));
  if (incoming.sequence != sequence)
    throw end_.error(
        ErrorKind::Transport,
        fmt::format("the metadata of tensor {} hold number {}: the sender writes over what is not "
                    "released",
                    sequence, incoming.sequence));
  there_.check_bounds(incoming.block);
  if (incoming.shape.checked_bytes() != incoming.block.size)
    throw end_.error(ErrorKind::Mismatch,
                     fmt::format("tensor {} has {} bytes, which are not those of its shape", sequence,
                                 incoming.block.size));
  return incoming;
}

task::Task<ReceivedTensor> DynamicReceiver::receive() {
  Alone alone(receiving_, "DynamicReceiver::receive");
  const std::uint64_t sequence = received_ + 1, depth = end_.options().depth;
  net::AwaitSignalOp arrival(end_.transport(), end_.peer(), end_.tag(sequence), arrived_, sequence);
  co_await arrival;
  if (arrival.seen > credits_.given() + depth)
    throw end_.error(
        ErrorKind::Transport,
        fmt::format("{} tensors were announced, but only {} were released, of {} that may be out",
                    arrival.seen, credits_.given(), depth));
  const Incoming incoming = read_metadata(sequence);
  received_ = sequence;
  ReceivedTensor tensor;
  tensor.sequence_ = sequence;
  tensor.shape_ = incoming.shape;
  tensor.checksum_ = incoming.checksum;
  if (end_.path == TensorPath::ReadInPlace) {
    tensor.there_ = incoming.block;
    tensor.bytes_ = mapped_.at(incoming.block);
  } else {
    auto taking =
        end_.path == TensorPath::ReadCopied ? copy_out(tensor, incoming) : take_message(tensor, incoming);
    co_await taking;
    end_.counters.copied += incoming.block.size;
    co_await credit(sequence);
  }
  check_payload(tensor.bytes_, tensor.checksum_, sequence, "arrived damaged");
  ++end_.counters.tensors;
  end_.counters.bytes += incoming.block.size;
  co_return std::move(tensor);
}

task::Task<void> DynamicReceiver::copy_out(ReceivedTensor& tensor, const Incoming& incoming) {
  const View source = mapped_.at(incoming.block);
  auto allocating = arena_.allocate(incoming.block.size, "a tensor from " + end_.name());
  tensor.block_ = co_await allocating;
  tensor.bytes_ = tensor.block_.bytes();
  co_await copy(end_.group(), tensor.bytes_, source);
  if (!mapped_.still_good(incoming.block))
    throw end_.error(ErrorKind::Transport,
                     fmt::format("the sender gave tensor {} up while it was copied", incoming.sequence));
}

task::Task<void> DynamicReceiver::take_message(ReceivedTensor& tensor, const Incoming& incoming) {
  auto allocating = arena_.allocate(incoming.block.size, "a tensor from " + end_.name());
  tensor.block_ = co_await allocating;
  tensor.bytes_ = tensor.block_.bytes();
  net::RecvOp message(end_.transport(), end_.peer(), end_.tag(incoming.sequence), tensor.bytes_,
                      incoming.shape.type);
  co_await message;
}

void DynamicReceiver::check_payload(ConstView bytes, std::uint64_t checksum, std::uint64_t sequence,
                                    const char* when) const {
  if (!end_.checked() || checksum_of_tensor(bytes) == checksum) return;
  throw end_.error(ErrorKind::Transport,
                   fmt::format("tensor {} {}: its checksum is not the one it was sent with", sequence, when));
}

task::Task<void> DynamicReceiver::credit(std::uint64_t sequence) {
  if (!credits_.give(sequence)) co_return;
  net::PutOp put(end_.transport(), {}, nullptr, 0, {end_.peer(), released_}, credits_.given());
  co_await put;
}

task::Task<void> DynamicReceiver::release(ReceivedTensor tensor) {
  TAXON_CHECK(tensor.sequence_ != 0, "a tensor was released twice");
  if (end_.path != TensorPath::ReadInPlace) co_return;  // the sender has it back, the block goes here
  check_payload(tensor.bytes_, tensor.checksum_, tensor.sequence_, "was written into while it was in use");
  if (!mapped_.still_good(tensor.there_))
    throw end_.error(ErrorKind::Transport,
                     fmt::format("the sender gave tensor {} up while it was in use", tensor.sequence_));
  co_await credit(tensor.sequence_);
}

task::Task<void> DynamicReceiver::close() {
  TAXON_CHECK(credits_.given() == received_, received_ - credits_.given(), " tensors are not released");
  auto agreed = end_.agree(std::byte{0}, TensorEnd::kClosing);
  co_await agreed;
}

}  // namespace taxon::comm
