#include "net/tcp/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace taxon::net::tcp {
namespace {

/// What one record of TLS carries.
constexpr std::size_t kRecord = 16 << 10;
/// So few bytes come at once as a rule: no system call is spent on their being one event. Peers say how large
/// fragments are, and a socket holds only so much.
constexpr std::size_t kFewestAwaited = 32 << 10, kMostAwaited = 1 << 20;
constexpr char kIdentity[] = "taxon";
constexpr unsigned char kCipher[2] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256, whose hash is the proofs'

SSL_SESSION* make_session(SSL* ssl, const Word& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipher);
  if (cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) ==
          1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

const Word& key_of(SSL* ssl) { return *static_cast<const Word*>(SSL_get_app_data(ssl)); }

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** id, std::size_t* id_size,
              SSL_SESSION** session) {
  *session = nullptr;
  *id = nullptr;
  *id_size = 0;
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
  *session = make_session(ssl, key_of(ssl));
  if (*session == nullptr) return 0;
  *id = reinterpret_cast<const unsigned char*>(kIdentity);
  *id_size = sizeof kIdentity - 1;
  return 1;
}

int find_key(SSL* ssl, const unsigned char* id, std::size_t id_size, SSL_SESSION** session) {
  *session = nullptr;
  if (id_size == sizeof kIdentity - 1 && std::memcmp(id, kIdentity, id_size) == 0)
    *session = make_session(ssl, key_of(ssl));
  return 1;
}

std::string openssl_problem() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "TLS failed";
  char text[256];
  ERR_error_string_n(code, text, sizeof text);
  return std::string("TLS failed: ") + text;
}

/// OpenSSL writes without MSG_NOSIGNAL: on this thread a connection that broke is an error and no signal.
void block_broken_pipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

/// Copies up to `room` bytes out of the pieces, from `from` on.
std::size_t gather(const iovec* pieces, int count, std::size_t from, std::byte* to, std::size_t room) {
  std::size_t copied = 0;
  for (int i = 0; i < count && copied < room; ++i) {
    if (from >= pieces[i].iov_len) {
      from -= pieces[i].iov_len;
      continue;
    }
    const std::size_t part = std::min(room - copied, pieces[i].iov_len - from);
    std::memcpy(to + copied, static_cast<const std::byte*>(pieces[i].iov_base) + from, part);
    copied += part;
    from = 0;
  }
  return copied;
}

}  // namespace

struct Stream::Tls {
  explicit Tls(const Word& key) : key(key) {}
  Tls(const Tls&) = delete;
  ~Tls() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
  const Word key;
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
};

Stream::Stream(int fd) : fd_(fd) {}

Stream::Stream(Stream&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      tls_(std::move(other.tls_)),
      staged_(std::move(other.staged_)),
      staged_size_(other.staged_size_),
      staged_sent_(other.staged_sent_),
      awaited_(other.awaited_),
      problem_(std::move(other.problem_)) {}

Stream::~Stream() {
  if (fd_ >= 0) close(fd_);
}

void Stream::encrypt(Side side, const Word& key) {
  block_broken_pipe();
  tls_ = std::make_unique<Tls>(key);
  const bool caller = side == Side::Caller;
  tls_->context = SSL_CTX_new(caller ? TLS_client_method() : TLS_server_method());
  SSL_CTX* context = tls_->context;
  bool made = context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
              SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1;
  if (made) {
    // The kernel encrypts where it and OpenSSL can. Tickets would be bytes that nobody reads.
    SSL_CTX_set_options(context, SSL_OP_ENABLE_KTLS);
    // Whoever leaves with a full socket can't say so; frames have sizes, so that one cut short is noticed.
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);  // the key is the proof; there are no certificates
    if (caller)
      SSL_CTX_set_psk_use_session_callback(context, offer_key);
    else
      SSL_CTX_set_psk_find_session_callback(context, find_key);
    tls_->ssl = SSL_new(context);
    made = tls_->ssl != nullptr && SSL_set_fd(tls_->ssl, fd_) == 1;
  }
  if (!made) throw Error(ErrorKind::Transport, openssl_problem());
  SSL_set_app_data(tls_->ssl, const_cast<Word*>(&tls_->key));
  if (caller)
    SSL_set_connect_state(tls_->ssl);
  else
    SSL_set_accept_state(tls_->ssl);
  staged_.resize(kRecord);
}

Stream::State Stream::secure() {
  ERR_clear_error();
  return tls_state(SSL_do_handshake(tls_->ssl));
}

Stream::State Stream::fail(int error) {
  problem_ = std::generic_category().message(error);
  return State::Broken;
}

/// After a call of OpenSSL's.
Stream::State Stream::tls_state(int result) {
  if (result == 1) return State::Open;
  const int saved = errno;
  switch (SSL_get_error(tls_->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return State::Full;
    case SSL_ERROR_ZERO_RETURN:
      return State::Closed;
    case SSL_ERROR_SYSCALL:
      if (saved != 0) return fail(saved);
      problem_ = "the connection was cut";
      return State::Broken;
    default:
      problem_ = openssl_problem();
      return State::Broken;
  }
}

Stream::Moved Stream::send(const iovec* pieces, int count) {
  if (tls_) return send_encrypted(pieces, count);
  std::size_t asked = 0;
  for (int i = 0; i < count; ++i) asked += pieces[i].iov_len;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = static_cast<std::size_t>(count);
  for (;;) {
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      const auto bytes = static_cast<std::size_t>(sent);
      return {bytes, bytes < asked ? State::Full : State::Open};
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {0, State::Full};
    return {0, fail(errno)};
  }
}

Stream::Moved Stream::receive(const iovec* pieces, int count) {
  if (tls_) return receive_encrypted(pieces, count);
  std::size_t asked = 0;
  for (int i = 0; i < count; ++i) asked += pieces[i].iov_len;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = static_cast<std::size_t>(count);
  for (;;) {
    const ssize_t came = recvmsg(fd_, &message, MSG_DONTWAIT);
    if (came > 0) {
      const auto bytes = static_cast<std::size_t>(came);
      return {bytes, bytes < asked ? State::Full : State::Open};
    }
    if (came == 0) return {0, State::Closed};
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {0, State::Full};
    return {0, fail(errno)};
  }
}

void Stream::await(std::size_t bytes) {
  if (tls_) return;
  const int least = bytes < kFewestAwaited ? 1 : static_cast<int>(std::min(bytes, kMostAwaited));
  if (least == awaited_) return;
  awaited_ = least;
  setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

Stream::State Stream::flush() {
  while (holds_bytes()) {
    std::size_t written = 0;
    ERR_clear_error();
    errno = 0;
    const int result =
        SSL_write_ex(tls_->ssl, staged_.data() + staged_sent_, staged_size_ - staged_sent_, &written);
    if (const State state = tls_state(result); state != State::Open) return state;
    staged_sent_ += written;
  }
  return State::Open;
}

/// A record is put together here, since what OpenSSL has begun it must be given again unchanged, and a
/// payload may be overwritten or taken back meanwhile.
Stream::Moved Stream::send_encrypted(const iovec* pieces, int count) {
  Moved moved{0, flush()};
  while (moved.state == State::Open) {
    staged_size_ = gather(pieces, count, moved.bytes, staged_.data(), kRecord);
    staged_sent_ = 0;
    if (staged_size_ == 0) break;
    moved.bytes += staged_size_;
    moved.state = flush();
  }
  return moved;
}

Stream::Moved Stream::receive_encrypted(const iovec* pieces, int count) {
  Moved moved;
  for (int i = 0; i < count; ++i) {
    auto* to = static_cast<std::byte*>(pieces[i].iov_base);
    for (std::size_t got = 0; got < pieces[i].iov_len;) {
      std::size_t came = 0;
      ERR_clear_error();
      errno = 0;
      moved.state = tls_state(SSL_read_ex(tls_->ssl, to + got, pieces[i].iov_len - got, &came));
      if (moved.state != State::Open) {
        // What came before the end is looked at first; the end is told again.
        if (moved.bytes > 0 && moved.state != State::Full) moved.state = State::Open;
        return moved;
      }
      got += came;
      moved.bytes += came;
    }
  }
  return moved;
}

void Stream::finish() {
  if (tls_ != nullptr && SSL_is_init_finished(tls_->ssl) != 0) SSL_shutdown(tls_->ssl);
  shutdown(fd_, SHUT_WR);
}

double Stream::round_trip() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return 1e-6 * static_cast<double>(info.tcpi_rtt);
}

}  // namespace taxon::net::tcp
