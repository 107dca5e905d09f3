#pragma once

#include <openssl/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "net/tcp/handshake.h"

namespace taxon::net::tcp {

/// A connected socket, plain or with TLS 1.3 on it. Never blocks.
class Stream {
 public:
  enum class State {
    Open,    // and there may be more room, or more bytes
    Full,    // the socket takes no more, or has no more, until its next event
    Closed,  // the peer ended it in order
    Broken,  // problem() says why
  };
  struct Moved {
    std::size_t bytes = 0;
    State state = State::Open;
  };
  enum class Side { Caller, Listener };

  /// Takes the descriptor over.
  explicit Stream(int fd);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;
  ~Stream();
  int fd() const { return fd_; }

  /// From now on everything goes through TLS 1.3, whose pre-shared key this is; then secure() until it says
  /// Open.
  void encrypt(Side side, const Word& key);
  State secure();

  /// Out of where the pieces lie. What was counted may be overwritten.
  Moved send(const iovec* pieces, int count);
  /// Into where the pieces are to lie, in order.
  Moved receive(const iovec* pieces, int count);
  /// Nothing can be done with less than so many bytes: after a receive() that was Full the socket's next
  /// event may wait for them, or for the connection's end. A hint, which TLS, whose records are read one by
  /// one, ignores.
  void await(std::size_t bytes);
  /// Bytes were counted as sent that this process still holds: send() nothing until there are none.
  bool holds_bytes() const { return staged_sent_ < staged_size_; }
  State flush();
  /// Tells the peer that nothing more comes.
  void finish();

  const std::string& problem() const { return problem_; }
  /// Round trip time of the way as the kernel measured it, in seconds.
  double round_trip() const;

 private:
  struct Tls;
  State fail(int error);
  State tls_state(int result);
  Moved send_encrypted(const iovec* pieces, int count);
  Moved receive_encrypted(const iovec* pieces, int count);

  int fd_;
  std::unique_ptr<Tls> tls_;
  std::vector<std::byte> staged_;  // the record that TLS has begun to send
  std::size_t staged_size_ = 0, staged_sent_ = 0;
  int awaited_ = 1;  // SO_RCVLOWAT
  std::string problem_;
};

}  // namespace taxon::net::tcp
