#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/check.h"

// Real ranks over UCX are children that fork() made, which ThreadSanitizer does not follow, and UCX's own
// synchronisation is built without it: what it would say there is not about this code.
#if defined(__SANITIZE_THREAD__)
#define TAXON_SKIP_UCX GTEST_SKIP() << "the sanitizer can't see into UCX and does not follow forks"
#else
#define TAXON_SKIP_UCX static_cast<void>(0)
#endif

namespace taxon::test {

/// A file that every process of a test appends to, a line at a time. Gone with the object.
class ProcessLog {
 public:
  ProcessLog() {
    char path[] = "/tmp/taxon-test-XXXXXX";
    fd_ = mkstemp(path);
    TAXON_CHECK(fd_ >= 0, "no file for a log");
    path_ = path;
  }
  ProcessLog(const ProcessLog&) = delete;
  ~ProcessLog() {
    close(fd_);
    unlink(path_.c_str());
  }
  void say(const std::string& text) const {
    const std::string line = text + "\n";
    // At the file's end, whoever wrote last: the descriptor and its place are shared by fork().
    [[maybe_unused]] auto written = write(fd_, line.data(), line.size());
  }
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  int fd_ = -1;
  std::string path_;
};

}  // namespace taxon::test
