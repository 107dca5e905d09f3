// gRPC: a tensor as bytes of a protobuf message, sent by rank 0 and consumed by rank 1 where protobuf has put
// it. unary_tcp, unary_unix: one call for each tensor; stream_tcp, stream_unix: all in one client stream.
// --rank --ranks --host --port as every side; --grpc-port: for gRPC; --socket: path of the unix socket.
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>

#include "peers/grpc_channel.h"
#include "side/tensors.h"
#include "tensor.grpc.pb.h"

namespace taxon::bench {
namespace {

/// Rank 1's: consumes what comes. The sender may begin with a request before this rank has heard of it.
class Service final : public rpc::TensorService::Service {
 public:
  grpc::Status Take(grpc::ServerContext*, const rpc::Tensor* tensor, rpc::Consumed* answer) override {
    consume(*tensor, answer);
    return grpc::Status::OK;
  }
  grpc::Status TakeAll(grpc::ServerContext*, grpc::ServerReader<rpc::Tensor>* stream,
                       rpc::Consumed* answer) override {
    rpc::Tensor tensor;
    while (stream->Read(&tensor)) consume(tensor, answer);
    return grpc::Status::OK;
  }
  /// Waits until tensor `number` of `request` is consumed. True if all of them until then were right.
  bool wait_for(std::uint64_t request, std::uint64_t number, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return request_ == request && last_ >= number; });
    return consumer_.right() && bytes_ == bytes;
  }

 private:
  void consume(const rpc::Tensor& tensor, rpc::Consumed* answer) {
    std::lock_guard lock(mutex_);
    if (std::exchange(request_, tensor.request()) != tensor.request()) {
      bytes_ = tensor.content().size();
      consumer_.prepare(TensorContent(bytes_ / sizeof(float)));
      consumer_.begin();
    }
    const auto* data = reinterpret_cast<const float*>(tensor.content().data());
    if (tensor.content().size() == bytes_)
      answer->set_largest(consumer_.take(data, tensor.number()));
    else
      consumer_.fail();
    last_ = tensor.number();
    came_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable came_;
  Consumer consumer_;
  std::size_t bytes_ = 0;
  std::uint64_t request_ = 0, last_ = 0;
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
    tensor_.assign(content.elements(), 0.0F);
    message_.Clear();
    message_.add_extents(static_cast<std::int64_t>(content.elements()));
    content.fill(tensor_.data());
    stamped_ = 0;
    connect(over_unix ? addresses_.socket : addresses_.tcp);
  }

  double run(std::uint64_t first, std::uint64_t count) override {
    const auto begin = std::chrono::steady_clock::now();
    if (!sends_)
      right_ = service_.wait_for(request_, first + count - 1, content_.elements() * sizeof(float));
    else if (streams_)
      stream(first, count);
    else
      for (std::uint64_t number = first; number < first + count; ++number) call(number);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  bool right() const override { return right_; }

 private:
  void connect(const std::string& address) {
    auto& channel = channels_[address];
    if (!channel) channel = make_grpc_channel(address);
    await_grpc_channel(*channel, address);
    stub_ = rpc::TensorService::NewStub(channel);
  }

  /// The message is kept, so that protobuf uses its memory again.
  void fill_message(std::uint64_t number) {
    content_.stamp(tensor_.data(), stamped_, number);
    stamped_ = number;
    message_.set_request(request_);
    message_.set_number(number);
    message_.mutable_content()->assign(reinterpret_cast<const char*>(tensor_.data()),
                                       tensor_.size() * sizeof(float));
  }

  void check(const grpc::Status& status, const rpc::Consumed& answer, std::uint64_t number) {
    if (!status.ok()) throw std::runtime_error("gRPC failed: " + status.error_message());
    right_ = right_ && answer.largest() == content_.largest(number);
  }

  void call(std::uint64_t number) {
    fill_message(number);
    grpc::ClientContext context;
    rpc::Consumed answer;
    check(stub_->Take(&context, message_, &answer), answer, number);
  }

  void stream(std::uint64_t first, std::uint64_t count) {
    grpc::ClientContext context;
    rpc::Consumed answer;
    auto writer = stub_->TakeAll(&context, &answer);
    for (std::uint64_t number = first; number < first + count; ++number) {
      fill_message(number);
      if (!writer->Write(message_)) break;
    }
    writer->WritesDone();
    check(writer->Finish(), answer, first + count - 1);
  }

  bool sends_;
  GrpcAddresses addresses_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;  // by address
  std::unique_ptr<rpc::TensorService::Stub> stub_;
  TensorContent content_{1};
  std::vector<float> tensor_;
  std::uint64_t stamped_ = 0;
  rpc::Tensor message_;
  std::uint64_t request_ = 0;  // counted alike by both ranks
  bool streams_ = false;
  bool right_ = true;
};

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon::bench;
  const Place place = place_from(argc, argv);
  GrpcSide side(place, {.tcp = "127.0.0.1:" + option(argc, argv, "grpc-port", "50051"),
                        .socket = "unix:" + option(argc, argv, "socket", "bench-grpc.socket")});
  CommandChannel channel(place);
  serve(channel, [&](const Request& request) { return measure(side, request); });
}
