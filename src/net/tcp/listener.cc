#include "net/tcp/listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace taxon::net::tcp {
namespace {

constexpr Duration kRest = std::chrono::seconds(1);

}  // namespace

/// Somebody who has connected and proved nothing yet.
class Listener::Guest final : public Watched {
 public:
  Guest(int fd, const Setting& setting, Poller& poller, Instant now)
      : since(now), setting_(setting), poller_(poller), stream_(std::in_place, fd) {
    tune(fd);
    poller_.watch(fd, *this);
    challenge_ = {.encryption = setting.encryption, .nonce = random_word()};
    is_over = !say(encode(challenge_));
  }
  ~Guest() {
    if (stream_) poller_.forget(stream_->fd());
  }

  void ready(std::uint32_t) override { is_ready = true; }
  /// True once the guest is to be admitted.
  bool converse() {
    is_ready = false;
    if (!is_over && stage_ == Stage::Answer) listen();
    if (!is_over && stage_ == Stage::Securing) secure();
    return !is_over && stage_ == Stage::Proven;
  }
  Stream take() {
    poller_.forget(stream_->fd());
    Stream stream = std::move(*stream_);
    stream_.reset();
    return stream;
  }
  const Answer& answer() const { return answer_; }
  bool knows_the_key() const { return stage_ != Stage::Answer; }

  const Instant since;
  bool is_ready = false;
  bool is_over = false;

 private:
  enum class Stage { Answer, Securing, Proven };

  /// A fresh socket's buffer takes a packet of the handshake whole.
  template <std::size_t N>
  bool say(const std::array<std::byte, N>& bytes) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), N};
    return stream_->send(&piece, 1).bytes == N;
  }

  void listen() {
    while (heard_size_ < kAnswerBytes) {
      const iovec piece{heard_.data() + heard_size_, kAnswerBytes - heard_size_};
      const Stream::Moved moved = stream_->receive(&piece, 1);
      heard_size_ += moved.bytes;
      if (moved.state == Stream::State::Closed || moved.state == Stream::State::Broken) is_over = true;
      if (moved.state != Stream::State::Open) break;
    }
    if (is_over || heard_size_ < kAnswerBytes) return;
    const auto answer = decode_answer(heard_);
    if (!answer) {
      is_over = true;
      return;
    }
    answer_ = *answer;
    Verdict verdict{judge(), {}};
    if (verdict.code == Verdict::Code::Welcome)
      verdict.proof = setting_.key.prove(Key::Role::Listener, challenge_, answer_);
    if (!say(encode(verdict)) || verdict.code != Verdict::Code::Welcome) {
      is_over = true;
      return;
    }
    stage_ = Stage::Proven;
    if (setting_.encryption == Encryption::None) return;
    stream_->encrypt(Stream::Side::Listener, setting_.key.tls(challenge_, answer_));
    stage_ = Stage::Securing;
  }

  Verdict::Code judge() const {
    if (!same(answer_.proof, setting_.key.prove(Key::Role::Caller, challenge_, answer_)))
      return Verdict::Code::WrongKey;
    const bool fits = answer_.version == kVersion && answer_.encryption == setting_.encryption &&
                      answer_.target == setting_.self.value() && answer_.source >= 0 &&
                      answer_.source < setting_.world_size && answer_.source != answer_.target &&
                      answer_.fragment > 0 && answer_.fragment <= kLargestFragment;
    return fits ? Verdict::Code::Welcome : Verdict::Code::OtherSettings;
  }

  void secure() {
    const Stream::State state = stream_->secure();
    if (state == Stream::State::Open)
      stage_ = Stage::Proven;
    else if (state != Stream::State::Full)
      is_over = true;
  }

  const Setting& setting_;
  Poller& poller_;
  std::optional<Stream> stream_;
  Stage stage_ = Stage::Answer;
  Challenge challenge_;
  Answer answer_;
  std::array<std::byte, kAnswerBytes> heard_{};
  std::size_t heard_size_ = 0;
};

Listener::Listener(const std::string& address, const Setting& setting, Poller& poller, Host& host)
    : setting_(setting), poller_(poller), host_(host), fd_(listen_at(address)) {
  poller_.watch(fd_, *this);
}

Listener::~Listener() {
  poller_.forget(fd_);
  close(fd_);
}

void Listener::ready(std::uint32_t events) {
  if ((events & EPOLLIN) != 0) acceptable_ = true;
}

bool Listener::is_busy() const {
  return (acceptable_ && !rest_) ||
         std::any_of(guests_.begin(), guests_.end(), [](const auto& guest) { return guest->is_ready; });
}

bool Listener::is_admitting(Rank rank) const {
  return std::any_of(guests_.begin(), guests_.end(), [&](const auto& guest) {
    return guest->knows_the_key() && guest->answer().source == rank.value();
  });
}

bool Listener::progress(Instant now) {
  const bool busy = is_busy();
  if (rest_ && now >= *rest_) rest_.reset();
  if (acceptable_ && !rest_) accept_some(now);
  for (auto& guest : guests_) {
    if (guest->is_ready && guest->converse()) {
      const Answer answer = guest->answer();
      host_.admitted(guest->take(), answer);
      guest.reset();
      continue;
    }
    if (!guest->is_over && now - guest->since < kPatience) continue;
    ++strangers_;
    guest.reset();
  }
  std::erase(guests_, nullptr);
  next_look_ = rest_;
  if (!guests_.empty())
    next_look_ = std::min(next_look_.value_or(Instant::max()), guests_.front()->since + kPatience);
  return busy;
}

void Listener::accept_some(Instant now) {
  for (int i = 0; i < kAcceptsPerLook; ++i) {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      welcome(fd, now);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    // Without descriptors the listener would stay readable.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      rest_ = now + kRest;
    else
      acceptable_ = false;
    return;
  }
}

void Listener::welcome(int fd, Instant now) {
  if (guests_.size() >= kSpareGuests + 2 * static_cast<std::size_t>(setting_.world_size)) {
    // A rank may take its connection for open before its last packet is read here, so none is shown out that
    // has proven the key.
    const auto oldest = std::find_if(guests_.begin(), guests_.end(),
                                     [](const auto& guest) { return !guest->knows_the_key(); });
    if (oldest != guests_.end()) {
      ++strangers_;
      guests_.erase(oldest);
    }
  }
  guests_.push_back(std::make_unique<Guest>(fd, setting_, poller_, now));
}

}  // namespace taxon::net::tcp
