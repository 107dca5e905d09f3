#include "launch/forked.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/failure.h"
#include "control/socket.h"

extern char** environ;

namespace taxon::launch {
namespace {

void close_what_exec_closes() {
  std::vector<int> closed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    if (const int flags = fcntl(fd, F_GETFD); flags >= 0 && (flags & FD_CLOEXEC) != 0) closed.push_back(fd);
  }
  for (int fd : closed) close(fd);
}

/// Where the system looks for the environment when somebody asks for this process's (/proc/PID/environ, ps
/// e): as much of it as there is room for.
void show_environment(const CStrings& environment) {
  std::ifstream file("/proc/self/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream after_name(text.substr(text.rfind(')') + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(after_name), {}};
  constexpr std::size_t kEnvStart = 47, kEnvEnd = 48;  // proc(5) counts from 1, and the name is the second
  if (fields.size() <= kEnvEnd) return;
  char* at = reinterpret_cast<char*>(std::stoull(fields[kEnvStart]));
  char* const end = reinterpret_cast<char*>(std::stoull(fields[kEnvEnd]));
  for (char* const* entry = environment.get(); *entry != nullptr; ++entry) {
    const auto size = static_cast<std::ptrdiff_t>(std::strlen(*entry) + 1);
    if (size > end - at) break;
    at = std::copy_n(*entry, size, at);
  }
  std::fill(at, end, '\0');
}

/// Through `pipe`: the kind, and the sentence.
[[noreturn]] void end_with(const Error& error, const control::Fd& pipe) {
  const std::string text = static_cast<char>(error.kind()) + std::string(error.what());
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = write(pipe.get(), text.data() + sent, text.size() - sent);
    if (n <= 0) break;
    sent += static_cast<std::size_t>(n);
  }
  _exit(exit_code(error.kind()));
}

[[noreturn]] void work_and_end(const std::function<void()>& work, pid_t parent,
                               const control::Fd& pipe) noexcept {
  end_with_parent(parent);
  try {
    work();
  } catch (const std::exception& thrown) {
    end_with(error_from(thrown), pipe);
  }
  std::cout.flush();
  _exit(0);
}

std::string all_of(const control::Fd& pipe) {
  std::string text;
  char bytes[4096];
  for (ssize_t n; (n = read(pipe.get(), bytes, sizeof bytes)) != 0;) {
    if (n > 0) text.append(bytes, static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  return text;
}

/// Of work that ended without a word.
Error error_of(const std::string& name, int status) {
  ErrorKind kind = ErrorKind::Internal;
  for (ErrorKind one : all_error_kinds())
    if (WIFEXITED(status) && WEXITSTATUS(status) == exit_code(one)) kind = one;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) kind = ErrorKind::Resources;
  return {kind, name + " " + in_words(status)};
}

}  // namespace

bool has_one_thread() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks)) == 1;
}

void write_what_waits() {
  std::cout.flush();
  std::fflush(stdout);
}

void run_main(MainFunction main, const CStrings& arguments, const CStrings& environment) noexcept {
  close_what_exec_closes();
  environ = const_cast<char**>(environment.get());
  show_environment(environment);
  int count = 0;
  while (arguments.get()[count] != nullptr) ++count;
  std::exit(main(count, const_cast<char**>(arguments.get())));
}

void run_apart(const std::string& name, const std::function<void()>& work) {
  if (!has_one_thread()) return work();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_to_start("pipe2");
  const control::Fd reading(ends[0]);
  control::Fd writing(ends[1]);
  write_what_waits();
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail_to_start("fork");
  if (child == 0) work_and_end(work, parent, writing);
  writing = {};
  const std::string text = all_of(reading);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!text.empty()) throw Error(static_cast<ErrorKind>(text.front()), text.substr(1));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw error_of(name, status);
}

}  // namespace taxon::launch
