#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "base/unique_function.h"
#include "control/socket.h"

namespace taxon::control {

/// Waits for sockets and calls their handlers, on the one thread that uses it. A handler may forget itself
/// and others while it runs.
class Poller {
 public:
  using Handler = UniqueFunction<void(std::uint32_t events)>;
  Poller();

  /// `events` and the handler's argument are epoll's. The descriptor stays the caller's.
  void watch(int fd, std::uint32_t events, Handler handler);
  void change(int fd, std::uint32_t events);
  void forget(int fd);
  /// Sleeps until something happened or `limit` passed, and calls the handlers of what happened.
  void wait(std::chrono::milliseconds limit);

 private:
  struct Entry {
    std::uint64_t id;
    std::shared_ptr<Handler> handler;
  };
  Fd epoll_;
  std::map<int, Entry> entries_;
  std::uint64_t next_id_ = 1;
};

}  // namespace taxon::control
