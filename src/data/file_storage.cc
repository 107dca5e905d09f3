#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>
#include <system_error>
#include <utility>

#include "base/failure.h"
#include "data/abandoned.h"
#include "data/storage.h"
#include "data/storage_errors.h"

namespace taxon::data {
namespace {

namespace fs = std::filesystem;

/// A limit of the process or the machine is neither the data's nor the output folder's fault.
void require_resources(const std::string& path, const char* operation, int error) {
  if (!is_exhaustion(error)) return;
  const Error why = error_from(std::system_error(error, std::generic_category(), path));
  throw Error(why.kind(), why.what(), {{}, operation, path});
}

[[noreturn]] void fail_system_read(const std::string& path, int error) {
  require_resources(path, "read", error);
  fail_read(path, std::strerror(error));
}

[[noreturn]] void fail_system_write(const std::string& path, int error) {
  require_resources(path, "write", error);
  fail_write(path, std::strerror(error));
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const std::string& path, int flags) : File(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  /// Reports what a file system (NFS, quotas) may say only now.
  int close() {
    int result = ::close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

/// Returns how many bytes there were.
std::size_t read_up_to(const File& file, const std::string& path, std::uint64_t offset,
                       std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    ssize_t n = ::pread(file.fd(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_system_read(path, errno);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

bool write_all(const File& file, ConstView bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = ::write(file.fd(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool sync(const File& file) {
  // EINVAL: a special file or a file system without fsync, where there is nothing to make durable.
  return ::fsync(file.fd()) == 0 || errno == EINVAL;
}

void sync_folder(const fs::path& folder, const std::string& path) {
  File file(folder.string(), O_RDONLY | O_DIRECTORY);
  if (!file || !sync(file)) fail_system_write(path, errno);
}

fs::path folder_of(const std::string& path) {
  fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

/// Like mkdir -p, and the new names survive a crash.
void make_folders(const fs::path& folder, const std::string& path) {
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  fs::path parent = folder.parent_path();
  if (parent != folder) make_folders(parent, path);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno == EEXIST && fs::is_directory(folder, ignored)) return;  // another worker was faster
    fail_write(path, fmt::format("the folder {} cannot be made: {}", folder.string(), std::strerror(errno)));
  }
  sync_folder(parent.empty() ? "." : parent, path);
}

/// Removes a temporary file unless it was renamed.
class Temporary {
 public:
  explicit Temporary(std::string name) : name_(std::move(name)) {}
  Temporary(const Temporary&) = delete;
  ~Temporary() {
    if (!renamed_) ::unlink(name_.c_str());
  }
  bool rename_to(const std::string& path) {
    renamed_ = ::rename(name_.c_str(), path.c_str()) == 0;
    return renamed_;
  }

 private:
  const std::string name_;
  bool renamed_ = false;
};

const std::regex& temporary_name() {
  static const std::regex name(R"(.+\.tmp-[0-9]+-[0-9]+-[0-9]+)");
  return name;
}

/// A file beside `path` that nobody else has: hosts that share a file system may run processes of equal
/// numbers. It is locked while it is open, by which remove_abandoned_files() knows that its writer lives. Not
/// open if that failed, and errno says why.
std::pair<std::string, int> open_beside(const std::string& path) {
  for (int attempt = 0;; ++attempt) {
    std::string name = fmt::format("{}.tmp-{}-{}-{}", path, ::getpid(), ::gettid(), attempt);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return {std::move(name), fd};
    struct stat info {};
    // Waits only for who takes it for abandoned just now. Without locks there is no cleaning either.
    ::flock(fd, LOCK_EX);
    if (::fstat(fd, &info) != 0 || info.st_nlink > 0) return {std::move(name), fd};
    ::close(fd);  // it was taken for abandoned in between
  }
}

/// Removes it if nobody holds its lock, which means that its writer is dead.
bool remove_if_abandoned(const fs::path& file) {
  File open(file.string(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  struct stat locked {
  }, named{};
  if (!open || ::flock(open.fd(), LOCK_EX | LOCK_NB) != 0 || ::fstat(open.fd(), &locked) != 0) return false;
  // The writer may have finished meanwhile, and begun another file of this name.
  const bool is_same =
      ::lstat(file.c_str(), &named) == 0 && named.st_dev == locked.st_dev && named.st_ino == locked.st_ino;
  return is_same && ::unlink(file.c_str()) == 0;
}

}  // namespace

std::vector<std::byte> FileStorage::read(const std::string& path) const {
  File file(path, O_RDONLY);
  struct stat info {};
  if (!file || ::fstat(file.fd(), &info) != 0) fail_system_read(path, errno);
  if (S_ISDIR(info.st_mode)) fail_read(path, "it is a folder");
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  bytes.resize(read_up_to(file, path, 0, bytes));
  return bytes;
}

std::vector<std::byte> FileStorage::read_range(const std::string& path, std::uint64_t offset,
                                               std::size_t size) const {
  File file(path, O_RDONLY);
  if (!file) fail_system_read(path, errno);
  std::vector<std::byte> bytes(size);
  std::size_t done = read_up_to(file, path, offset, bytes);
  if (done < size)
    fail_read(path, fmt::format("it is cut short: bytes {} to {} are wanted, it ends at {}", offset,
                                offset + size, offset + done));
  return bytes;
}

std::uint64_t FileStorage::size(const std::string& path) const {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) fail_system_read(path, errno);
  if (S_ISDIR(info.st_mode)) fail_read(path, "it is a folder");
  return static_cast<std::uint64_t>(info.st_size);
}

bool FileStorage::exists(const std::string& path) const {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> FileStorage::list(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail_system_read(folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

void FileStorage::write_atomic(const std::string& path, ConstView bytes) {
  fs::path folder = folder_of(path);
  make_folders(folder, path);
  auto [name, fd] = open_beside(path);
  File file(fd);
  if (!file) fail_system_write(path, errno);
  Temporary temporary(std::move(name));
  if (!write_all(file, bytes) || !sync(file) || !temporary.rename_to(path) || file.close() != 0)
    fail_system_write(path, errno);  // its lock lasts until it has its name
  sync_folder(folder, path);
}

void FileStorage::append(const std::string& path, ConstView bytes) {
  make_folders(folder_of(path), path);
  File file(path, O_WRONLY | O_CREAT | O_APPEND);
  if (!file || !write_all(file, bytes) || file.close() != 0) fail_system_write(path, errno);
}

void FileStorage::remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_write(path, error.message());
}

int remove_abandoned_files(const std::string& folder) {
  int removed = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored) && !it->is_symlink(ignored) &&
        std::regex_match(it->path().filename().string(), temporary_name()))
      removed += remove_if_abandoned(it->path()) ? 1 : 0;
  }
  return removed;
}

}  // namespace taxon::data
