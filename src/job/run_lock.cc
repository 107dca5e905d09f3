#include "job/run_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace taxon::job {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kSignOfLife{10};
// Clients of network file systems see each other's times up to a minute late.
constexpr double kSilentSeconds = 150;

[[noreturn]] void fail(const std::string& path) {
  throw Error(ErrorKind::Output, fmt::format("{}: cannot be written: {}", path, std::strerror(errno)),
              {{}, "lock", path});
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// When a process began, in clock ticks since its machine did; none: there is no such process.
std::optional<std::string> start_of(long process) {
  std::string text = text_of(fmt::format("/proc/{}/stat", process));
  const auto name_end = text.rfind(')');  // names may have anything in them
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  constexpr int kStart = 20;  // the 22nd of all
  for (int i = 0; i < kStart; ++i) words >> word;
  return words ? std::optional(word) : std::nullopt;
}

struct Owner {
  std::string host, machine, start, since;
  long process = 0;
};

/// Processes are told apart by number within it alone.
std::string this_machine() {
  std::error_code ignored;
  std::string boot = text_of("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return boot + " " + fs::read_symlink("/proc/self/ns/pid", ignored).string();
}

Owner this_process() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return {host, this_machine(), start_of(getpid()).value_or(""),
          fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr))), getpid()};
}

std::string write_owner(const Owner& owner) {
  return Json{{"host", owner.host},
              {"process", owner.process},
              {"start", owner.start},
              {"machine", owner.machine},
              {"since", owner.since}}
             .dump() +
         "\n";
}

std::optional<Owner> parse_owner(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Owner owner;
    json.at("host").get_to(owner.host);
    json.at("process").get_to(owner.process);
    json.at("start").get_to(owner.start);
    json.at("machine").get_to(owner.machine);
    json.at("since").get_to(owner.since);
    return owner;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

/// `now` on the clock of the file system.
double seconds_between(const timespec& then, const timespec& now) {
  return static_cast<double>(now.tv_sec - then.tv_sec) +
         static_cast<double>(now.tv_nsec - then.tv_nsec) * 1e-9;
}

/// True if what wrote `text` into the lock, last touched at `touched`, may still be there.
bool lives(const std::string& text, const timespec& touched, const timespec& now) {
  const auto owner = parse_owner(text);
  if (owner && owner->machine == this_machine()) return start_of(owner->process) == owner->start;
  return seconds_between(touched, now) < kSilentSeconds;
}

std::string describe(const std::string& text) {
  const auto owner = parse_owner(text);
  if (!owner) return "a process that did not say its name";
  return fmt::format("process {} of host {}, since {}", owner->process, owner->host, owner->since);
}

struct Held {
  std::string text;
  timespec touched{};
};

std::optional<Held> read_lock(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat info {};
  fstat(file, &info);
  char text[4096];
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  return Held{std::string(text, size > 0 ? static_cast<std::size_t>(size) : 0), info.st_mtim};
}

void write_all(int file, const std::string& text, const std::string& path) {
  if (write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail(path);
}

/// A file of this process's own in the folder, for what must be there at once and whole; and the file
/// system's clock.
class Draft {
 public:
  Draft(const std::string& folder, const std::string& text)
      // Numbers of processes are those of a container: another one's in the same folder may have this one's.
      : path_(fmt::format("{}/{}.{:016x}", folder, RunLock::kFile, std::hash<std::string>()(text))) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0) fail(path_);
    struct stat info {};
    try {
      write_all(file_, text, path_);
      if (fstat(file_, &info) != 0) fail(path_);
    } catch (...) {
      close(file_);
      unlink(path_.c_str());
      throw;
    }
    now_ = info.st_mtim;
  }
  ~Draft() {
    if (file_ >= 0) close(file_);
    unlink(path_.c_str());
  }
  Draft(const Draft&) = delete;
  const std::string& path() const { return path_; }
  const timespec& now() const { return now_; }
  int take() { return std::exchange(file_, -1); }

 private:
  const std::string path_;
  int file_ = -1;
  timespec now_{};
};

/// The lock's descriptor; none: there is a lock already.
std::optional<int> try_to_lock(const std::string& path, const std::string& text, Draft& draft) {
  if (link(draft.path().c_str(), path.c_str()) == 0) return draft.take();
  if (errno == EEXIST) return std::nullopt;
  // A file system without links.
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0 && errno == EEXIST) return std::nullopt;
  if (file < 0) fail(path);
  write_all(file, text, path);
  return file;
}

/// Takes a dead lock away. Somebody else may do so at the same time, and be there by now: that one is put
/// back.
void remove_dead(const std::string& path, const std::string& text, const std::string& aside) {
  if (rename(path.c_str(), aside.c_str()) != 0) return;
  const auto taken = read_lock(aside);
  if (taken && taken->text != text && link(aside.c_str(), path.c_str()) != 0)
    return;  // it is there under that name
  unlink(aside.c_str());
}

}  // namespace

std::optional<std::string> RunLock::holder(const std::string& folder) {
  const auto held = read_lock(folder + "/" + kFile);
  if (!held) return std::nullopt;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return lives(held->text, held->touched, now) ? std::optional(describe(held->text)) : std::nullopt;
}

RunLock::RunLock(std::string folder, const std::function<void(const std::string&)>& say)
    : folder_(std::move(folder)), path_(folder_ + "/" + kFile) {
  std::error_code error;
  made_folder_ = fs::create_directories(folder_, error);
  if (error) {
    errno = error.value();
    fail(folder_);
  }
  const std::string text = write_owner(this_process());
  Draft draft(folder_, text);
  constexpr int kAttempts = 20;
  for (int attempt = 0; attempt < kAttempts && file_ < 0; ++attempt) {
    if (const auto file = try_to_lock(path_, text, draft)) {
      file_ = *file;
      break;
    }
    const auto held = read_lock(path_);
    if (!held) continue;  // it has just gone
    if (lives(held->text, held->touched, draft.now()))
      throw Error(
          ErrorKind::Usage,
          fmt::format("{} is in use by {}: wait for it, or choose another --out (if that process is no more, "
                      "remove {})",
                      folder_, describe(held->text), path_),
          {{}, "lock", path_});
    say(fmt::format("{} was left behind by {}", folder_, describe(held->text)));
    remove_dead(path_, held->text, draft.path() + ".dead");
  }
  if (file_ < 0)
    throw Error(ErrorKind::Usage, fmt::format("{}: others come and go; choose another --out", folder_),
                {{}, "lock", path_});
  life_ = std::thread([this] { show_life(); });
}

void RunLock::show_life() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, kSignOfLife, [this] { return over_; })) futimens(file_, nullptr);
}

RunLock::~RunLock() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  ends_.notify_all();
  life_.join();
  struct stat own {
  }, there{};
  const bool still =
      fstat(file_, &own) == 0 && stat(path_.c_str(), &there) == 0 && own.st_ino == there.st_ino;
  if (still) unlink(path_.c_str());
  close(file_);
  if (made_folder_) rmdir(folder_.c_str());
}

}  // namespace taxon::job
