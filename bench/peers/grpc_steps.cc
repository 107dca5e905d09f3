// Training steps with a parameter server over gRPC: a gradient as a slice of a message that lies where it was
// written, and the variable back in the same way; each is read into one piece of memory. calls_*: one call at
// a time; many_*: four at a time; stream_*: one stream in which gradients go and variables come at the same
// time.
// *_tcp and *_unix.
// --rank --ranks --host --port as every side; --grpc-host, --grpc-port: for gRPC; --socket: path of the unix
// socket.
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/method_handler.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "peers/grpc_channel.h"
#include "peers/grpc_tensor.h"
#include "side/steps.h"

namespace taxon::bench {
namespace {

using grpc::ByteBuffer;
constexpr int kAtATime = 4;
constexpr const char* kBegin = "/taxon.bench.Steps/Begin";
constexpr const char* kExchange = "/taxon.bench.Steps/Exchange";
constexpr const char* kExchangeAll = "/taxon.bench.Steps/ExchangeAll";

/// Rank 1's: the variables.
class Service final : public grpc::Service {
 public:
  Service() {
    using namespace grpc::internal;
    AddMethod(new RpcServiceMethod(
        kBegin, RpcKind::NORMAL_RPC,
        new RpcMethodHandler<Service, ByteBuffer, ByteBuffer, ByteBuffer, ByteBuffer>(
            [](Service* self, grpc::ServerContext*, const ByteBuffer* message, ByteBuffer* answer) {
              self->begin(*message);
              *answer = value_message(std::uint8_t{0});
              return grpc::Status::OK;
            },
            this)));
    AddMethod(
        new RpcServiceMethod(kExchange, RpcKind::NORMAL_RPC,
                             new RpcMethodHandler<Service, ByteBuffer, ByteBuffer, ByteBuffer, ByteBuffer>(
                                 [](Service* self, grpc::ServerContext*, const ByteBuffer* gradient,
                                    ByteBuffer* answer) { return self->exchange(*gradient, answer); },
                                 this)));
    AddMethod(new RpcServiceMethod(kExchangeAll, RpcKind::BIDI_STREAMING,
                                   new BidiStreamingHandler<Service, ByteBuffer, ByteBuffer>(
                                       [](Service* self, grpc::ServerContext*,
                                          grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>* stream) {
                                         for (ByteBuffer gradient, answer; stream->Read(&gradient);) {
                                           if (const grpc::Status status = self->exchange(gradient, &answer);
                                               !status.ok())
                                             return status;
                                           if (!stream->Write(answer)) break;
                                         }
                                         return grpc::Status::OK;
                                       },
                                       this)));
  }
  /// Until all variables of step `number` are answered.
  void wait_for(std::uint64_t request, std::uint64_t number) {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return request_ == request && answered_ >= number * variables_.size(); });
  }

 private:
  struct Variable {
    std::vector<float> values, gradient;
  };

  void begin(const ByteBuffer& message) {
    MessageReader reader(message);
    const std::lock_guard lock(mutex_);
    request_ = reader.value<std::uint64_t>();
    variables_.clear();
    while (reader.left() > 0) {
      const auto elements = reader.value<std::uint64_t>();
      variables_.push_back({std::vector<float>(elements), std::vector<float>(elements)});
    }
    answered_ = 0;
  }

  /// Calls that run at the same time are about different variables. A variable is not written again before
  /// the worker, who has taken it then, sends its next gradient.
  grpc::Status exchange(const ByteBuffer& message, ByteBuffer* answer) {
    MessageReader reader(message);
    auto head = reader.value<TensorHead>();
    if (head.variable >= variables_.size() || head.elements != variables_[head.variable].values.size())
      return {grpc::StatusCode::INVALID_ARGUMENT, "no such variable"};
    Variable& variable = variables_[head.variable];
    reader.tensor(head, variable.gradient);
    add_to(variable.values.data(), variable.gradient.data(), variable.values.size());
    *answer = tensor_message(head, variable.values);
    const std::lock_guard lock(mutex_);
    ++answered_;
    came_.notify_all();
    return grpc::Status::OK;
  }
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Variable> variables_;
  std::uint64_t request_ = 0, answered_ = 0;
};

class GrpcSteps final : public StepSide {
 public:
  GrpcSteps(const Place& place, GrpcAddresses addresses)
      : works_(place.rank == 0), addresses_(std::move(addresses)) {
    if (!works_) server_ = start_grpc_server(addresses_, service_);
  }

  void prepare(const std::vector<std::size_t>& variables, const std::string& way) override {
    ++request_;
    if (!works_) return;
    const std::string form = way.substr(0, way.find('_'));
    if (form != "calls" && form != "many" && form != "stream") throw std::runtime_error("unknown way " + way);
    streams_ = form == "stream";
    threads_ = form == "many" ? kAtATime : 1;
    check_.begin(variables);
    own_.clear();
    answers_.clear();
    for (const std::size_t elements : variables) {
      own_.emplace_back(elements);
      answers_.emplace_back(elements);
    }
    connect(way.ends_with("_unix") ? addresses_.socket : addresses_.tcp);
    std::vector<std::uint64_t> begin{request_};
    begin.insert(begin.end(), variables.begin(), variables.end());
    const grpc::Slice slice(begin.data(), begin.size() * sizeof begin.front());
    ByteBuffer begun;
    require(call(kBegin, ByteBuffer(&slice, 1), begun));
  }

  std::vector<double> run(const StepRun& run) override {
    if (!works_) {
      service_.wait_for(request_, run.first + run.count - 1);
      return {};
    }
    grpc::ClientContext context;
    const std::unique_ptr<Stream> stream(
        streams_ ? grpc::internal::ClientReaderWriterFactory<ByteBuffer, ByteBuffer>::Create(
                       channel_.get(), method_of(kExchangeAll, RpcKind::BIDI_STREAMING, channel_), &context)
                 : nullptr);
    std::vector<double> seconds;
    for (std::uint64_t number = run.first; number < run.first + run.count; ++number) {
      const auto begin = replay_.compute(run.compute);
      check_.expect(number);
      if (streams_)
        exchange_in(*stream, number);
      else
        call_all(number);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    if (streams_) {
      stream->WritesDone();
      require(stream->Finish());
    }
    return seconds;
  }

  bool right() const override { return check_.right(); }

 private:
  using Stream = grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>;

  void connect(const std::string& address) {
    channel_ = channels_[address];
    if (!channel_) channel_ = channels_[address] = make_grpc_channel(address);
    await_grpc_channel(*channel_, address);
  }

  grpc::Status call(const char* name, const ByteBuffer& message, ByteBuffer& answer) {
    grpc::ClientContext context;
    return grpc::internal::BlockingUnaryCall(channel_.get(), method_of(name, RpcKind::NORMAL_RPC, channel_),
                                             &context, message, &answer);
  }

  /// Written anew; gRPC has let go of the one before, which was answered.
  ByteBuffer gradient(std::size_t v, std::uint64_t number) {
    write_pattern(own_[v].data(), own_[v].size(), number);
    return tensor_message({.request = request_, .number = number, .variable = v, .elements = own_[v].size()},
                          own_[v]);
  }

  void use(std::size_t v, const ByteBuffer& answer, std::uint64_t number) {
    MessageReader reader(answer);
    const auto head = reader.value<TensorHead>();
    if (head.variable != v || head.number != number || head.elements != answers_[v].size())
      throw std::runtime_error("gRPC answered with something else");
    reader.tensor(head, answers_[v]);
    check_.use(v, answers_[v].data());
  }

  void call_all(std::uint64_t number) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    const auto work = [&] {
      for (std::size_t v = 0; (v = next++) < own_.size();) {
        ByteBuffer answer;
        if (!call(kExchange, gradient(v, number), answer).ok()) {
          failed = true;
          return;
        }
        use(v, answer, number);
      }
    };
    {
      std::vector<std::jthread> others;
      for (int i = 1; i < threads_; ++i) others.emplace_back(work);
      work();
    }
    if (failed) throw std::runtime_error("a call of gRPC failed");
  }

  void exchange_in(Stream& stream, std::uint64_t number) {
    std::jthread writer([&] {
      for (std::size_t v = 0; v < own_.size(); ++v)
        if (!stream.Write(gradient(v, number))) return;  // which the reader hears of
    });
    for (std::size_t v = 0; v < own_.size(); ++v) {
      ByteBuffer answer;
      if (!stream.Read(&answer)) throw std::runtime_error("gRPC's stream broke");
      use(v, answer, number);
    }
  }

  bool works_;
  GrpcAddresses addresses_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;  // by address
  std::shared_ptr<grpc::Channel> channel_;
  PulledCheck check_;
  Replay replay_;
  std::vector<std::vector<float>> own_, answers_;
  std::uint64_t request_ = 0;  // counted alike by both ranks
  bool streams_ = false;
  int threads_ = 1;
};

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon::bench;
  const Place place = place_from(argc, argv);
  GrpcSteps side(place, grpc_addresses(argc, argv));
  CommandChannel channel(place);
  serve_steps(channel, side);
}
