// gRPC: a tensor as a slice of a message that lies where the producer wrote it, sent by rank 0, and by rank 1
// read into one piece of memory and consumed. unary_tcp, unary_unix: one call for each tensor; stream_tcp,
// stream_unix: all in one client stream.
// --rank --ranks --host --port as every side; --grpc-host, --grpc-port: for gRPC; --socket: path of the unix
// socket.
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/method_handler.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>

#include "peers/grpc_channel.h"
#include "peers/grpc_tensor.h"
#include "side/tensors.h"

namespace taxon::bench {
namespace {

using grpc::ByteBuffer;
constexpr const char* kTake = "/taxon.bench.Tensors/Take";
constexpr const char* kTakeAll = "/taxon.bench.Tensors/TakeAll";

/// Rank 1's: consumes what comes. The sender may begin with a request before this rank has heard of it.
class Service final : public grpc::Service {
 public:
  Service() {
    using namespace grpc::internal;
    AddMethod(new RpcServiceMethod(
        kTake, RpcKind::NORMAL_RPC,
        new RpcMethodHandler<Service, ByteBuffer, ByteBuffer, ByteBuffer, ByteBuffer>(
            [](Service* self, grpc::ServerContext*, const ByteBuffer* message, ByteBuffer* answer) {
              *answer = value_message(self->consume(*message));
              return grpc::Status::OK;
            },
            this)));
    AddMethod(new RpcServiceMethod(kTakeAll, RpcKind::CLIENT_STREAMING,
                                   new ClientStreamingHandler<Service, ByteBuffer, ByteBuffer>(
                                       [](Service* self, grpc::ServerContext*,
                                          grpc::ServerReader<ByteBuffer>* stream, ByteBuffer* answer) {
                                         float largest = 0;
                                         for (ByteBuffer message; stream->Read(&message);)
                                           largest = self->consume(message);
                                         *answer = value_message(largest);
                                         return grpc::Status::OK;
                                       },
                                       this)));
  }
  /// Waits until tensor `number` of `request` is consumed. True if all of them until then were right.
  bool wait_for(std::uint64_t request, std::uint64_t number, std::size_t elements) {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return request_ == request && last_ >= number; });
    return consumer_.right() && tensor_.size() == elements;
  }

 private:
  float consume(const ByteBuffer& message) {
    std::lock_guard lock(mutex_);
    MessageReader reader(message);
    const auto head = reader.value<TensorHead>();
    if (std::exchange(request_, head.request) != head.request) {
      tensor_.assign(head.elements, 0.0F);
      consumer_.prepare(TensorContent(head.elements));
      consumer_.begin();
    }
    float largest = 0;
    if (head.elements == tensor_.size()) {
      reader.tensor(head, tensor_);
      largest = consumer_.take(tensor_.data(), head.number);
    } else {
      consumer_.fail();
    }
    last_ = head.number;
    came_.notify_all();
    return largest;
  }
  std::mutex mutex_;
  std::condition_variable came_;
  Consumer consumer_;
  std::vector<float> tensor_;
  std::uint64_t request_ = 0, last_ = 0;
};

/// Where the producer writes in turn. A place is free again when gRPC has let go of what was sent from there.
class Places {
 public:
  void prepare(std::size_t elements) {
    for (Place& place : places_) {
      wait(place);
      place.tensor.assign(elements, 0.0F);
    }
  }
  std::span<float> next() {
    Place& place = places_[++turn_ % places_.size()];
    wait(place);
    return place.tensor;
  }
  /// Of what next() gave last.
  ByteBuffer message(const TensorHead& head) {
    Place& place = places_[turn_ % places_.size()];
    place.free = false;
    return tensor_message(
        head, place.tensor,
        [](void* of) {
          auto* const sent = static_cast<Place*>(of);
          const std::lock_guard lock(sent->owner->mutex_);
          sent->free = true;
          sent->owner->let_go_.notify_all();
        },
        &place);
  }
  ~Places() {
    for (Place& place : places_) wait(place);
  }

 private:
  struct Place {
    Places* owner;
    std::vector<float> tensor;
    bool free = true;
  };
  void wait(Place& place) {
    std::unique_lock lock(mutex_);
    let_go_.wait(lock, [&] { return place.free; });
  }
  std::mutex mutex_;
  std::condition_variable let_go_;
  std::array<Place, 3> places_{Place{this, {}}, Place{this, {}}, Place{this, {}}};
  std::size_t turn_ = 0;
};

class GrpcSide final : public TensorSide {
 public:
  GrpcSide(const Place& place, GrpcAddresses addresses)
      : sends_(place.rank == 0), addresses_(std::move(addresses)) {
    if (!sends_) server_ = start_grpc_server(addresses_, service_);
  }

  void prepare(const TensorContent& content, const std::string& variant) override {
    content_ = content;
    ++request_;
    right_ = true;
    streams_ = variant.starts_with("stream_");
    if (!sends_) return;
    const bool over_unix = variant.ends_with("_unix");
    if (!over_unix && !variant.ends_with("_tcp")) throw std::runtime_error("unknown variant " + variant);
    places_.prepare(content.elements());
    connect(over_unix ? addresses_.socket : addresses_.tcp);
  }

  double run(std::uint64_t first, std::uint64_t count) override {
    const auto begin = std::chrono::steady_clock::now();
    if (!sends_)
      right_ = service_.wait_for(request_, first + count - 1, content_.elements());
    else if (streams_)
      stream(first, count);
    else
      for (std::uint64_t number = first; number < first + count; ++number) call(number);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  bool right() const override { return right_; }

 private:
  void connect(const std::string& address) {
    channel_ = channels_[address];
    if (!channel_) channel_ = channels_[address] = make_grpc_channel(address);
    await_grpc_channel(*channel_, address);
  }

  ByteBuffer produce(std::uint64_t number) {
    content_.write(places_.next().data(), number);
    return places_.message({.request = request_, .number = number, .elements = content_.elements()});
  }

  void check(const grpc::Status& status, const ByteBuffer& answer, std::uint64_t number) {
    require(status);
    right_ = right_ && MessageReader(answer).value<float>() == content_.largest(number);
  }

  void call(std::uint64_t number) {
    const auto method = method_of(kTake, RpcKind::NORMAL_RPC, channel_);
    grpc::ClientContext context;
    ByteBuffer answer;
    const ByteBuffer message = produce(number);
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall(channel_.get(), method, &context, message, &answer);
    check(status, answer, number);
  }

  void stream(std::uint64_t first, std::uint64_t count) {
    const auto method = method_of(kTakeAll, RpcKind::CLIENT_STREAMING, channel_);
    grpc::ClientContext context;
    ByteBuffer answer;
    const std::unique_ptr<grpc::ClientWriter<ByteBuffer>> writer(
        grpc::internal::ClientWriterFactory<ByteBuffer>::Create(channel_.get(), method, &context, &answer));
    for (std::uint64_t number = first; number < first + count; ++number)
      if (!writer->Write(produce(number))) break;
    writer->WritesDone();
    check(writer->Finish(), answer, first + count - 1);
  }

  bool sends_;
  GrpcAddresses addresses_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  Places places_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;  // by address
  std::shared_ptr<grpc::Channel> channel_;
  TensorContent content_{1};
  std::uint64_t request_ = 0;  // counted alike by both ranks
  bool streams_ = false;
  bool right_ = true;
};

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon::bench;
  const Place place = place_from(argc, argv);
  GrpcSide side(place, grpc_addresses(argc, argv));
  CommandChannel channel(place);
  serve(channel, [&](const Request& request) { return measure(side, request); });
}
