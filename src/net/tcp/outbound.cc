#include "net/tcp/outbound.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/failure.h"

namespace taxon::net::tcp {

std::deque<Frame>::const_iterator place_of_urgent(const std::deque<Frame>& frames) {
  return std::find_if(frames.begin(), frames.end(), [](const Frame& frame) {
    return frame.sent == 0 && frame.header.kind != WireKind::Confirmation;
  });
}

Outbound::Outbound(const Setting& setting, Poller& poller, Owner& owner)
    : setting_(setting), poller_(poller), owner_(owner) {}

Outbound::~Outbound() { hang_up(); }

void Outbound::hang_up() {
  if (stream_) poller_.forget(stream_->fd());
  stream_.reset();
  readable_ = writable_ = hung_up_ = false;
  heard_size_ = 0;
}

void Outbound::fail(const std::string& why) {
  problem_ = why;
  hang_up();
  stage_ = Stage::Failed;
}

void Outbound::retry(Instant now, const std::string& why) {
  if (now - *first_call_ >= kPersistence) return fail(why);
  problem_ = why;
  hang_up();
  stage_ = Stage::Idle;
  pause_ = now + kPause;
}

void Outbound::ready(std::uint32_t events) {
  if ((events & EPOLLIN) != 0) readable_ = true;
  if ((events & EPOLLOUT) != 0) writable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = hung_up_ = true;
}

std::optional<Instant> Outbound::advance(Instant now) {
  if (first_call_ && counted_ && now > *counted_) {
    *first_call_ += now - *counted_;
    deadline_ += now - *counted_;
  }
  const std::optional<Instant> when = go_on(now);
  counted_ = when.value_or(now);
  return when;
}

std::optional<Instant> Outbound::go_on(Instant now) {
  if (stage_ == Stage::Open) {
    if (hung_up_) {
      const int error = pending_error(stream_->fd());
      fail(error != 0 ? std::generic_category().message(error) : "the rank ended the connection");
    }
    return {};
  }
  if (stage_ == Stage::Failed) return {};
  if (stage_ == Stage::Idle) {
    if (pause_ && now < *pause_) return pause_;
    call(now);
  }
  if (stage_ != Stage::Idle && stage_ != Stage::Failed) converse(now);
  if (stage_ == Stage::Idle) return pause_;
  // A peer may be busy or stopped for long. It may also take what was said last for the beginning of a
  // connection, whose end would be a loss.
  if (stage_ != Stage::Connecting) return {};
  if (now >= deadline_) {
    retry(now, "no answer within ten seconds (a firewall, or the host is down)");
    return pause_;
  }
  return deadline_;
}

void Outbound::call(Instant now) {
  if (!first_call_) first_call_ = now;
  const int fd = start_connect(setting_.address);
  if (fd < 0) {
    const std::error_code why(errno, std::generic_category());
    const std::string what = fmt::format("no connection to rank {} can be made", setting_.peer.value());
    if (is_exhaustion(why.value())) lack_ = error_from(std::system_error(why, what));
    return fail(why.message());
  }
  stream_.emplace(fd);
  tune(fd);
  if (shares_) limit_unsent(fd);
  poller_.watch(fd, *this);
  stage_ = Stage::Connecting;
  deadline_ = now + kPatience;
}

void Outbound::share_the_work() {
  shares_ = true;
  if (stream_) limit_unsent(stream_->fd());
}

void Outbound::converse(Instant now) {
  if (stage_ == Stage::Connecting) {
    if (!writable_ && !hung_up_) return;
    // Refused: nobody listens any more, and nobody will.
    if (const int error = pending_error(stream_->fd()); error != 0)
      return fail(std::generic_category().message(error));
    if (!writable_) return;
    stage_ = Stage::Challenge;
  }
  if (stage_ == Stage::Challenge && received<kChallengeBytes>(now)) answer(now);
  if (stage_ == Stage::Verdict && received<kVerdictBytes>(now)) conclude(now);
  if (stage_ == Stage::Securing) secure(now);
}

template <std::size_t N>
bool Outbound::received(Instant now) {
  static_assert(N <= sizeof heard_);
  while (readable_ && heard_size_ < N) {
    const iovec piece{heard_.data() + heard_size_, N - heard_size_};
    const Stream::Moved moved = stream_->receive(&piece, 1);
    heard_size_ += moved.bytes;
    if (moved.state == Stream::State::Full) readable_ = false;
    if (moved.state == Stream::State::Closed || moved.state == Stream::State::Broken) {
      retry(now, "the connection was closed before anything was said");
      return false;
    }
  }
  if (heard_size_ < N) return false;
  heard_size_ = 0;
  return true;
}

/// A fresh socket's buffer takes a packet of the handshake whole.
template <std::size_t N>
bool Outbound::say(Instant now, const std::array<std::byte, N>& bytes) {
  const iovec piece{const_cast<std::byte*>(bytes.data()), N};
  if (stream_->send(&piece, 1).bytes == N) return true;
  retry(now, "the connection was closed before anything was said");
  return false;
}

void Outbound::answer(Instant now) {
  const auto challenge = decode_challenge(std::span(heard_).first<kChallengeBytes>());
  if (!challenge) return fail("something listens there that is not a rank");
  if (challenge->version != kVersion) return fail("it speaks another version of the protocol");
  if (challenge->encryption != setting_.encryption)
    return fail("one of the two ranks encrypts, the other not");
  challenge_ = *challenge;
  answer_ = {.encryption = setting_.encryption,
             .nonce = random_word(),
             .source = setting_.self.value(),
             .target = setting_.peer.value(),
             .epoch = setting_.epoch,
             .fragment = setting_.fragment};
  answer_.proof = setting_.key.prove(Key::Role::Caller, challenge_, answer_);
  if (say(now, encode(answer_))) stage_ = Stage::Verdict;
}

void Outbound::conclude(Instant now) {
  const auto verdict = decode_verdict(std::span(heard_).first<kVerdictBytes>());
  if (!verdict) return fail("something listens there that is not a rank");
  const bool welcome = verdict->code == Verdict::Code::Welcome &&
                       same(verdict->proof, setting_.key.prove(Key::Role::Listener, challenge_, answer_));
  if (!welcome) return fail("it is not a rank of this job, or has another secret");
  if (setting_.encryption == Encryption::None) {
    stage_ = Stage::Open;
    return;
  }
  stream_->encrypt(Stream::Side::Caller, setting_.key.tls(challenge_, answer_));
  stage_ = Stage::Securing;
  secure(now);
}

void Outbound::secure(Instant now) {
  const Stream::State state = stream_->secure();
  if (state == Stream::State::Open)
    stage_ = Stage::Open;
  else if (state != Stream::State::Full)
    retry(now, stream_->problem().empty() ? "the connection was closed" : stream_->problem());
}

void Outbound::add(const Frame& frame) {
  frames_.push_back(frame);
  queued_ += frame.payload.size();
}

void Outbound::add_urgent(const Frame& frame) { frames_.insert(place_of_urgent(frames_), frame); }

bool Outbound::send() {
  if (stream_->holds_bytes()) {
    const Stream::State state = stream_->flush();
    if (state == Stream::State::Full) writable_ = false;
    if (state == Stream::State::Closed || state == Stream::State::Broken) fail(stream_->problem());
    if (state != Stream::State::Open) return false;
  }
  iovec pieces[2 * kFrames + 2];
  int count = 0;
  for (const Frame& frame : frames_) {
    if (count + 2 > static_cast<int>(std::size(pieces))) break;
    if (frame.sent < sizeof frame.header) {
      auto* header = reinterpret_cast<const std::byte*>(&frame.header);
      pieces[count++] = {const_cast<std::byte*>(header) + frame.sent, sizeof frame.header - frame.sent};
    }
    const std::size_t from = std::max(frame.sent, sizeof frame.header) - sizeof frame.header;
    if (from < frame.payload.size())
      pieces[count++] = {const_cast<std::byte*>(frame.payload.data()) + from, frame.payload.size() - from};
  }
  if (count == 0) return false;
  const Stream::Moved moved = stream_->send(pieces, count);
  std::size_t rest = moved.bytes;
  while (rest > 0) {
    Frame& frame = frames_.front();
    const std::size_t part = std::min(rest, frame.size() - frame.sent);
    frame.sent += part;
    rest -= part;
    if (frame.sent < frame.size()) break;
    const Frame whole = frame;
    frames_.pop_front();
    queued_ -= whole.payload.size();
    owner_.sent(whole);
  }
  if (moved.state == Stream::State::Full) writable_ = false;
  if (moved.state == Stream::State::Closed || moved.state == Stream::State::Broken) fail(stream_->problem());
  return moved.bytes > 0;
}

void Outbound::finish() {
  if (is_open()) stream_->finish();
}

}  // namespace taxon::net::tcp
