// Training steps with a parameter server over gRPC: a gradient as bytes of a protobuf message, and the
// variable back in the same way. calls_*: one call at a time; many_*: four at a time; stream_*: one stream in
// which gradients go and variables come at the same time. *_tcp and *_unix.
// --rank --ranks --host --port as every side; --grpc-port: for gRPC; --socket: path of the unix socket.
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "peers/grpc_channel.h"
#include "side/steps.h"
#include "tensor.grpc.pb.h"

namespace taxon::bench {
namespace {

constexpr int kAtATime = 4;

/// Rank 1's: the variables.
class Service final : public rpc::StepService::Service {
 public:
  grpc::Status Begin(grpc::ServerContext*, const rpc::Variables* variables, rpc::Begun*) override {
    std::lock_guard lock(mutex_);
    variables_.clear();
    for (const std::uint64_t elements : variables->elements()) variables_.emplace_back(elements);
    answered_ = 0;
    request_ = variables->request();
    return grpc::Status::OK;
  }
  grpc::Status Exchange(grpc::ServerContext*, const rpc::Tensor* gradient, rpc::Tensor* answer) override {
    return exchange(*gradient, answer);
  }
  grpc::Status ExchangeAll(grpc::ServerContext*,
                           grpc::ServerReaderWriter<rpc::Tensor, rpc::Tensor>* stream) override {
    rpc::Tensor gradient, answer;
    while (stream->Read(&gradient)) {
      if (const grpc::Status status = exchange(gradient, &answer); !status.ok()) return status;
      if (!stream->Write(answer)) break;
    }
    return grpc::Status::OK;
  }
  /// Until all variables of step `number` are answered.
  void wait_for(std::uint64_t request, std::uint64_t number) {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return request_ == request && answered_ >= number * variables_.size(); });
  }

 private:
  /// Calls that run at the same time are about different variables.
  grpc::Status exchange(const rpc::Tensor& gradient, rpc::Tensor* answer) {
    if (gradient.variable() >= variables_.size() ||
        gradient.content().size() != variables_[gradient.variable()].size() * sizeof(float))
      return {grpc::StatusCode::INVALID_ARGUMENT, "no such variable"};
    std::vector<float>& variable = variables_[gradient.variable()];
    add_to(variable.data(), reinterpret_cast<const float*>(gradient.content().data()), variable.size());
    answer->set_variable(gradient.variable());
    answer->set_number(gradient.number());
    answer->mutable_content()->assign(reinterpret_cast<const char*>(variable.data()),
                                      variable.size() * sizeof(float));
    std::lock_guard lock(mutex_);
    ++answered_;
    came_.notify_all();
    return grpc::Status::OK;
  }
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::vector<float>> variables_;
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
    gradients_ = {variables.begin(), variables.end()};
    own_.clear();
    messages_.assign(variables.size(), {});
    answers_.assign(variables.size(), {});
    stamped_ = 0;
    for (const GradientContent& gradient : gradients_)
      gradient.fill(own_.emplace_back(gradient.elements()).data());
    connect(way.ends_with("_unix") ? addresses_.socket : addresses_.tcp);
    rpc::Variables begin;
    begin.set_request(request_);
    for (const std::size_t elements : variables) begin.add_elements(elements);
    grpc::ClientContext context;
    rpc::Begun begun;
    require(stub_->Begin(&context, begin, &begun));
  }

  std::vector<double> run(const StepRun& run) override {
    if (!works_) {
      service_.wait_for(request_, run.first + run.count - 1);
      return {};
    }
    grpc::ClientContext context;
    Stream stream = streams_ ? stub_->ExchangeAll(&context) : nullptr;
    std::vector<double> seconds;
    for (std::uint64_t number = run.first; number < run.first + run.count; ++number) {
      const auto begin = replay_.compute(run.compute);
      if (streams_)
        exchange_in(*stream, number);
      else
        call_all(number);
      stamped_ = number;
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    if (streams_) {
      stream->WritesDone();
      require(stream->Finish());
    }
    for (std::size_t v = 0; run.compares && v < answers_.size(); ++v)
      check_.compare(v, floats(answers_[v]), run.first + run.count - 1);
    return seconds;
  }

  bool right() const override { return check_.right(); }

 private:
  using Stream = std::unique_ptr<grpc::ClientReaderWriter<rpc::Tensor, rpc::Tensor>>;

  static const float* floats(const rpc::Tensor& tensor) {
    return reinterpret_cast<const float*>(tensor.content().data());
  }
  static void require(const grpc::Status& status) {
    if (!status.ok()) throw std::runtime_error("gRPC failed: " + status.error_message());
  }

  void connect(const std::string& address) {
    auto& channel = channels_[address];
    if (!channel) channel = make_grpc_channel(address);
    await_grpc_channel(*channel, address);
    stub_ = rpc::StepService::NewStub(channel);
  }

  /// The message is kept, so that protobuf uses its memory again.
  const rpc::Tensor& gradient(std::size_t v, std::uint64_t number) {
    gradients_[v].stamp(own_[v].data(), stamped_, number);
    rpc::Tensor& message = messages_[v];
    message.set_variable(static_cast<std::uint32_t>(v));
    message.set_number(number);
    message.mutable_content()->assign(reinterpret_cast<const char*>(own_[v].data()),
                                      own_[v].size() * sizeof(float));
    return message;
  }

  /// Variables are used where protobuf has put them.
  void use(std::size_t v, std::uint64_t number) {
    const rpc::Tensor& answer = answers_[v];
    if (answer.variable() != v || answer.number() != number ||
        answer.content().size() != own_[v].size() * sizeof(float))
      throw std::runtime_error("gRPC answered with something else");
    check_.use(v, floats(answer), number);
  }

  void call_all(std::uint64_t number) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    const auto call = [&] {
      for (std::size_t v = 0; (v = next++) < own_.size();) {
        grpc::ClientContext context;
        if (!stub_->Exchange(&context, gradient(v, number), &answers_[v]).ok()) {
          failed = true;
          return;
        }
        use(v, number);
      }
    };
    {
      std::vector<std::jthread> others;
      for (int i = 1; i < threads_; ++i) others.emplace_back(call);
      call();
    }
    if (failed) throw std::runtime_error("a call of gRPC failed");
  }

  void exchange_in(grpc::ClientReaderWriter<rpc::Tensor, rpc::Tensor>& stream, std::uint64_t number) {
    std::jthread writer([&] {
      for (std::size_t v = 0; v < own_.size(); ++v)
        if (!stream.Write(gradient(v, number))) return;  // which the reader hears of
    });
    for (std::size_t v = 0; v < own_.size(); ++v) {
      if (!stream.Read(&answers_[v])) throw std::runtime_error("gRPC's stream broke");
      use(v, number);
    }
  }

  bool works_;
  GrpcAddresses addresses_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;  // by address
  std::unique_ptr<rpc::StepService::Stub> stub_;
  std::vector<GradientContent> gradients_;
  PulledCheck check_;
  Replay replay_;
  std::vector<std::vector<float>> own_;
  std::vector<rpc::Tensor> messages_, answers_;
  std::uint64_t stamped_ = 0;
  std::uint64_t request_ = 0;  // counted alike by both ranks
  bool streams_ = false;
  int threads_ = 1;
};

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon::bench;
  const Place place = place_from(argc, argv);
  GrpcSteps side(place, {.tcp = "127.0.0.1:" + option(argc, argv, "grpc-port", "50051"),
                         .socket = "unix:" + option(argc, argv, "socket", "bench-grpc.socket")});
  CommandChannel channel(place);
  serve_steps(channel, side);
}
