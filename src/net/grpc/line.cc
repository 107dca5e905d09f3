#include "net/grpc/line.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "net/grpc/calls.h"

namespace taxon::net {
namespace {

std::string words(const grpc::Status& status) {
  if (status.ok()) return "the rank ended the connection (gRPC)";
  return fmt::format("{} (gRPC status {})", status.error_message(), static_cast<int>(status.error_code()));
}

void introduce(grpc::ClientContext& context, const Line::Setting& setting) {
  context.AddMetadata(kRankKey, std::to_string(setting.self.value()));
  context.AddMetadata(kTokenKey, setting.token);
}

std::shared_ptr<grpc::Channel> open_channel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // http_proxy is for other things than ranks
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

/// Lives until gRPC is done with it. The hold keeps gRPC from being done while the rank's thread may write.
class Stream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Stream(const Line::Setting& setting) : setting_(setting) { introduce(context_, setting_); }
  static std::shared_ptr<Stream> begin(const Line::Setting& setting, grpc::GenericStub& stub) {
    auto stream = std::make_shared<Stream>(setting);
    stream->self_ = stream;
    stub.PrepareBidiStreamingCall(&stream->context_, kStreamMethod, {}, stream.get());
    stream->AddHold();
    stream->StartRead(&stream->never_);  // ends when the call does
    stream->StartCall();
    return stream;
  }
  void write(grpc::ByteBuffer fragment) {
    fragment_ = std::move(fragment);
    StartWrite(&fragment_);
  }
  void OnWriteDone(bool ok) override {
    if (ok)
      setting_.events->push(LineFree{setting_.peer, nullptr});
    else
      setting_.events->push(SendFailed{setting_.peer, "", nullptr});
  }
  void OnReadDone(bool ok) override {
    if (ok) return StartRead(&never_);
    setting_.events->push(LineEnding{setting_.peer});
  }
  void OnDone(const grpc::Status& status) override {
    const auto events = setting_.events;  // outlives this call, which the rank's thread may now let go of
    events->push(LineClosed{setting_.peer, words(status), std::move(self_)});
  }
  grpc::ClientContext& context() { return context_; }

 private:
  const Line::Setting setting_;
  grpc::ClientContext context_;
  grpc::ByteBuffer fragment_, never_;
  std::shared_ptr<Stream> self_;
};

class StreamingLine : public Line {
 public:
  explicit StreamingLine(Setting setting)
      : setting_(std::move(setting)),
        stub_(open_channel(setting_.target)),
        stream_(Stream::begin(setting_, stub_)) {}
  ~StreamingLine() override { StreamingLine::cancel(); }
  void send(grpc::ByteBuffer fragment) override {
    if (held_)
      stream_->write(std::move(fragment));
    else  // gRPC may be done with the call
      setting_.events->push(SendFailed{setting_.peer, "", nullptr});
  }
  void hang_up() override {
    if (held_) stream_->StartWritesDone();
    let_go();
  }
  void cancel() override {
    stream_->context().TryCancel();
    let_go();
  }
  void let_go() override {
    if (held_) stream_->RemoveHold();
    held_ = false;
  }
  std::string address() const override { return stream_->context().peer(); }

 protected:
  const Setting setting_;
  grpc::GenericStub stub_;

 private:
  const std::shared_ptr<Stream> stream_;
  bool held_ = true;
};

/// One fragment; lives until gRPC is done with it.
class Message final : public grpc::ClientUnaryReactor {
 public:
  Message(const Line::Setting& setting, grpc::ByteBuffer fragment)
      : setting_(setting), fragment_(std::move(fragment)) {
    introduce(context_, setting_);
  }
  static std::shared_ptr<Message> begin(const Line::Setting& setting, grpc::GenericStub& stub,
                                        grpc::ByteBuffer fragment) {
    auto message = std::make_shared<Message>(setting, std::move(fragment));
    message->self_ = message;
    stub.PrepareUnaryCall(&message->context_, kMessageMethod, {}, &message->fragment_, &message->answer_,
                          message.get());
    message->StartCall();
    return message;
  }
  void OnDone(const grpc::Status& status) override {
    const auto events = setting_.events;  // as above
    if (status.ok())
      events->push(LineFree{setting_.peer, std::move(self_)});
    else
      events->push(SendFailed{setting_.peer, words(status), std::move(self_)});
  }
  grpc::ClientContext& context() { return context_; }

 private:
  const Line::Setting setting_;
  grpc::ClientContext context_;
  grpc::ByteBuffer fragment_, answer_;
  std::shared_ptr<Message> self_;
};

class UnaryLine final : public StreamingLine {
 public:
  using StreamingLine::StreamingLine;
  void send(grpc::ByteBuffer fragment) override {
    last_ = Message::begin(setting_, stub_, std::move(fragment));
  }
  void cancel() override {
    if (last_) last_->context().TryCancel();
    StreamingLine::cancel();
  }

 private:
  std::shared_ptr<Message> last_;
};

}  // namespace

std::unique_ptr<Line> open_streaming_line(Line::Setting setting) {
  return std::make_unique<StreamingLine>(std::move(setting));
}

std::unique_ptr<Line> open_unary_line(Line::Setting setting) {
  return std::make_unique<UnaryLine>(std::move(setting));
}

}  // namespace taxon::net
