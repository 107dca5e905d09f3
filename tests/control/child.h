#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

extern char** environ;

namespace taxon::control {

/// A child process with pipes to its input and from its output. Killed and reaped at the end of the test.
class Child {
 public:
  explicit Child(std::vector<std::string> words) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0)
      throw std::runtime_error("posix_spawn " + words[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    output_ = fdopen(out[0], "r");
  }
  Child(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      wait();
    }
    close(input_);
    fclose(output_);
  }

  void say(const std::string& word) {
    std::string line = word + "\n";
    if (write(input_, line.data(), line.size()) < 0) throw std::runtime_error("the child's input is closed");
  }
  void signal(int number) { kill(pid_, number); }
  /// The next line that contains `part`; lines before it are dropped. Empty: the output ended first.
  std::string line_with(const std::string& part) {
    char* line = nullptr;
    std::size_t size = 0;
    std::string found;
    while (found.empty() && getline(&line, &size, output_) >= 0)
      if (std::string(line).find(part) != std::string::npos) found = line;
    free(line);
    return found;
  }
  /// Its exit code, or 128 + signal.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  FILE* output_ = nullptr;
};

}  // namespace taxon::control
