#include "net/grpc/listener.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <charconv>

#include "base/error.h"
#include "net/grpc/calls.h"

namespace taxon::net {
namespace {

/// Fragments of one peer that may wait for the rank's thread.
constexpr int kAhead = 4;

/// A call that lives until gRPC is done with it, whoever else has let go of it.
class OpenCall : public grpc::ServerGenericBidiReactor, public Arrival {
 public:
  OpenCall(Rank source, std::shared_ptr<Events> events) : source_(source), events_(std::move(events)) {}
  /// The call, begun.
  template <class Call>
  static OpenCall* begin(Rank source, std::shared_ptr<Events> events) {
    auto call = std::make_shared<Call>(source, std::move(events));
    call->self_ = call;
    call->StartRead(&call->buffer_);
    return call.get();
  }
  void OnDone() override { const std::shared_ptr<OpenCall> last = std::move(self_); }

 protected:
  /// What was read, as an event. False: nobody listens any more.
  bool hand_over() {
    grpc::Slice bytes;
    (void)buffer_.DumpToSingleSlice(&bytes);  // fails only for a buffer that was never filled
    buffer_.Clear();
    return events_->push(FragmentCame{source_, std::move(bytes), self_});
  }

  const Rank source_;
  const std::shared_ptr<Events> events_;
  grpc::ByteBuffer buffer_;
  std::shared_ptr<OpenCall> self_;
};

/// A peer's stream. While kAhead fragments wait nothing is read; whoever takes one of them reads on, so there
/// is never more than one read, and the call ends by a read that fails.
class StreamCall final : public OpenCall {
 public:
  using OpenCall::OpenCall;
  void OnReadDone(bool ok) override {
    if (!ok) {
      events_->push(HungUp{source_});
      return Finish(grpc::Status::OK);
    }
    if (!hand_over()) return StartRead(&buffer_);
    // Counted only now: from here on the rank's thread may be the one to read.
    if (waiting_.fetch_add(1) + 1 < kAhead) StartRead(&buffer_);
  }
  void taken() override {
    if (waiting_.fetch_sub(1) == kAhead) StartRead(&buffer_);
  }

 private:
  std::atomic<int> waiting_{0};  // below 0 for one that was taken before it was counted
};

/// One fragment, answered when the rank's thread took it.
class MessageCall final : public OpenCall {
 public:
  using OpenCall::OpenCall;
  void OnReadDone(bool ok) override {
    if (!ok) return Finish({grpc::StatusCode::CANCELLED, "no fragment came"});
    if (!hand_over()) taken();
  }
  void taken() override { StartWriteAndFinish(&answer_, {}, grpc::Status::OK); }

 private:
  grpc::ByteBuffer answer_{nullptr, 0};
};

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(grpc::Status why) { Finish(std::move(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

class Listener::Service final : public grpc::CallbackGenericService {
 public:
  Service(int world_size, std::string token, std::shared_ptr<Events> events)
      : world_size_(world_size), token_(std::move(token)), events_(std::move(events)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    const auto& said = call->client_metadata();
    const auto token = said.find(kTokenKey), rank = said.find(kRankKey);
    if (token == said.end() || rank == said.end() || token->second != token_)
      return new Refusal({grpc::StatusCode::PERMISSION_DENIED, "not a rank of this job"});
    int source = -1;
    std::from_chars(rank->second.begin(), rank->second.end(), source);
    if (source < 0 || source >= world_size_)
      return new Refusal({grpc::StatusCode::INVALID_ARGUMENT, "a rank that the job has not"});
    if (call->method() == kStreamMethod) return OpenCall::begin<StreamCall>(Rank(source), events_);
    if (call->method() == kMessageMethod) return OpenCall::begin<MessageCall>(Rank(source), events_);
    return new Refusal({grpc::StatusCode::UNIMPLEMENTED, "a method that ranks do not serve"});
  }

 private:
  const int world_size_;
  const std::string token_;
  const std::shared_ptr<Events> events_;
};

Listener::Listener(int world_size, const std::vector<Interface>& interfaces,
                   std::array<std::uint64_t, 2> token, std::shared_ptr<Events> events)
    : service_(std::make_unique<Service>(world_size, token_text(token), std::move(events))) {
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(service_.get());
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  std::vector<int> ports(interfaces.size());
  for (std::size_t i = 0; i < interfaces.size(); ++i)
    builder.AddListeningPort(text_of({interfaces[i].address, 0}), grpc::InsecureServerCredentials(),
                             &ports[i]);
  server_ = builder.BuildAndStart();
  if (!server_)
    throw Error(ErrorKind::Transport,
                "gRPC can't listen on this host's interfaces; GRPC_VERBOSITY=info says more");
  for (std::size_t i = 0; i < interfaces.size(); ++i)
    endpoints_.push_back({interfaces[i].address, static_cast<std::uint32_t>(ports[i])});
}

Listener::~Listener() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

}  // namespace taxon::net
