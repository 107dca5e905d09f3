#pragma once

#include <cstdint>

namespace taxon::net::tcp {

/// Whoever owns a socket in the network's epoll set. Events are edges (EPOLLET): what they say holds until a
/// call on the socket says otherwise.
class Watched {
 public:
  virtual void ready(std::uint32_t events) = 0;

 protected:
  ~Watched() = default;
};

}  // namespace taxon::net::tcp
