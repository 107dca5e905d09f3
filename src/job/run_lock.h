#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace taxon::job {

/// One process at a time in a folder, on network file systems too: a file there names its host and process.
/// Where that is this machine's, it holds as long as the process is there; otherwise as long as the file
/// shows signs of life, which its owner gives every few seconds.
class RunLock {
 public:
  static constexpr const char* kFile = ".taxon-lock";

  /// Makes the folder if it is missing. Throws Error{Usage} that names who is there, Error{Output} if nothing
  /// can be written. `say` gets a line if another one is gone without a goodbye.
  RunLock(std::string folder, const std::function<void(const std::string&)>& say);
  /// Nobody is there any more. A folder that was made for nothing goes too.
  ~RunLock();
  RunLock(const RunLock&) = delete;

  /// Who is in the folder, in words; none: nobody.
  static std::optional<std::string> holder(const std::string& folder);

 private:
  void show_life();

  const std::string folder_, path_;
  bool made_folder_ = false;
  int file_ = -1;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false;  // protected by mutex_
  std::thread life_;
};

}  // namespace taxon::job
