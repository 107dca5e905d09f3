#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <vector>

#include "base/view.h"

namespace taxon::test {

using Bytes = std::vector<std::byte>;

/// One of the processes of run_processes, in the process itself.
class Process {
 public:
  Process(int index, std::vector<int> sockets) : index_(index), sockets_(std::move(sockets)) {}
  int index() const { return index_; }
  int size() const { return static_cast<int>(sockets_.size()); }

  /// Collective: every process's `own`, by index. A process that died ends the caller with a message.
  std::vector<Bytes> exchange(const Bytes& own) const {
    std::vector<Bytes> all(sockets_.size());
    for (int fd : sockets_)
      if (fd >= 0) {
        std::uint64_t size = own.size();
        write_all(fd, &size, sizeof size);
        write_all(fd, own.data(), own.size());
      }
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      if (sockets_[i] < 0) {
        all[i] = own;
        continue;
      }
      std::uint64_t size = 0;
      read_all(sockets_[i], &size, sizeof size);
      all[i].resize(size);
      read_all(sockets_[i], all[i].data(), size);
    }
    return all;
  }
  /// Nobody leaves before all have entered.
  void barrier() const { exchange({}); }

 private:
  static void write_all(int fd, const void* data, std::size_t size) {
    for (auto* at = static_cast<const char*>(data); size > 0;) {
      ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
      if (n <= 0) fail();
      at += n;
      size -= static_cast<std::size_t>(n);
    }
  }
  static void read_all(int fd, void* data, std::size_t size) {
    for (auto* at = static_cast<char*>(data); size > 0;) {
      ssize_t n = read(fd, at, size);
      if (n <= 0) fail();
      at += n;
      size -= static_cast<std::size_t>(n);
    }
  }
  [[noreturn]] static void fail() {
    std::cerr << "another process of the test died\n";
    _exit(3);
  }
  int index_;
  std::vector<int> sockets_;  // to each other process; -1 at the own index
};

/// Processes end by themselves after this many seconds: those that hang, however slow the machine, and before
/// the test driver ends the test.
constexpr unsigned kProcessSeconds = 400;

namespace detail {
[[noreturn]] inline void become_child(const Process& process, const std::function<int(Process&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(kProcessSeconds);
  Process own = process;
  int code = 2;
  try {
    code = body(own);
    if (testing::Test::HasFailure()) code = 1;
  } catch (const std::exception& error) {
    std::cerr << "process " << own.index() << ": " << error.what() << "\n";
  }
  std::cout.flush();
  std::fflush(nullptr);
  _exit(code);
}
}  // namespace detail

/// Runs `body` in `n` processes forked from this one and waits for all of them. The result has for each its
/// exit code, or 128 + n when signal n ended it. What a body returns is its exit code, unless an expectation
/// failed in it (1) or it threw (2). Nobody is left behind: a process dies with the caller and after
/// kProcessSeconds. REQUIRES: this process has no threads and has not touched what does not survive a fork.
inline std::vector<int> run_processes(int n, const std::function<int(Process&)>& body) {
  auto count = static_cast<std::size_t>(n);
  std::vector<std::vector<int>> sockets(count, std::vector<int>(count, -1));
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = a + 1; b < count; ++b) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  std::cout.flush();
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < count; ++i) {
    pid_t pid = fork();
    if (pid < 0) std::abort();
    if (pid == 0) {
      for (std::size_t other = 0; other < count; ++other)
        for (int fd : sockets[other])
          if (other != i && fd >= 0) close(fd);
      detail::become_child(Process(static_cast<int>(i), sockets[i]), body);
    }
    children.push_back(pid);
  }
  for (auto& row : sockets)
    for (int fd : row)
      if (fd >= 0) close(fd);
  std::vector<int> codes;
  for (pid_t pid : children) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

}  // namespace taxon::test
