#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/quick.h"
#include "control/session.h"
#include "control/socket.h"

namespace taxon::control {

/// A port of 127.0.0.1 that nobody else gets while this process lives: it is bound and nobody listens there,
/// and a rank 0 may bind it too.
inline std::uint16_t free_port() {
  static std::vector<Fd> reserved;
  Fd& fd = reserved.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  return local_endpoint(fd.get()).port();
}

/// Joins on a thread of its own.
inline std::future<std::unique_ptr<Session>> join_later(JoinOptions options) {
  return std::async(std::launch::async,
                    [options = std::move(options)]() mutable { return Session::join(std::move(options)); });
}

/// All ranks of a job in this process. `edit` may change each rank's options.
inline std::vector<std::unique_ptr<Session>> start_job(int world,
                                                       std::function<void(JoinOptions&)> edit = {}) {
  std::uint16_t port = free_port();
  std::vector<std::future<std::unique_ptr<Session>>> pending;
  for (int r = 0; r < world; ++r) {
    JoinOptions options = quick(r, world, port);
    if (edit) edit(options);
    pending.push_back(join_later(std::move(options)));
  }
  std::vector<std::unique_ptr<Session>> sessions;
  for (auto& p : pending) sessions.push_back(p.get());
  return sessions;
}

/// Rank 0 leaves last, so everybody leaves at once.
inline void leave_all(std::vector<std::unique_ptr<Session>>& sessions) {
  std::vector<std::future<void>> leaving;
  for (auto& session : sessions)
    if (session) leaving.push_back(std::async(std::launch::async, [&] { session->leave(); }));
  for (auto& l : leaving) l.get();
}

/// What went wrong in `work`, or nothing.
template <class Work>
std::optional<Error> error_from(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

/// Collects what a callback is told, for a test's thread to wait for.
template <class T>
class Log {
 public:
  void add(T item) {
    std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
  /// Blocks until an item matches, now or later.
  T wait_for(std::function<bool(const T&)> matches) {
    std::unique_lock lock(mutex_);
    for (std::size_t i = 0;; ++i) {
      changed_.wait(lock, [&] { return i < items_.size(); });
      if (matches(items_[i])) return items_[i];
    }
  }
  std::vector<T> all() {
    std::lock_guard lock(mutex_);
    return items_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> items_;
};

template <class E>
E wait_for_event(Log<Event>& log) {
  return std::get<E>(log.wait_for([](const Event& event) { return std::holds_alternative<E>(event); }));
}

}  // namespace taxon::control
