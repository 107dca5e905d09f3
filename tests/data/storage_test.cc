#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "base/error.h"
#include "data/abandoned.h"
#include "data/held_folder.h"
#include "data/memory_storage.h"

namespace taxon::data {
namespace {

ConstView view(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::string text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string error_of(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// Both storages keep the same promises.
class EachStorage : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      storage_ = std::make_unique<MemoryStorage>();
      return;
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "taxon-storage-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    storage_ = std::make_unique<FileStorage>();
  }
  void TearDown() override {
    if (!GetParam()) std::filesystem::remove_all(root_);
  }
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  std::unique_ptr<Storage> storage_;
  std::string root_ = "/root";
};
INSTANTIATE_TEST_SUITE_P(Storage, EachStorage, testing::Bool(),
                         [](const auto& info) { return info.param ? "Memory" : "File"; });

TEST(FileStorageList, OfAFolderThatCanNotBeReadIsAnErrorAndNotEmpty) {
  const std::string loop = testing::TempDir() + "taxon_loop_" + std::to_string(getpid());
  std::filesystem::create_symlink(loop, loop);
  EXPECT_THAT(error_of(ErrorKind::Data, [&] { FileStorage().list(loop + "/in"); }), testing::HasSubstr(loop));
  std::filesystem::remove(loop);
}

TEST_P(EachStorage, ReadsWhatWasWritten) {
  storage_->write_atomic(path("a/b/file"), view("first"));
  storage_->write_atomic(path("a/b/file"), view("second"));
  storage_->write_atomic(path("a/empty"), view(""));
  EXPECT_EQ(text(storage_->read(path("a/b/file"))), "second");
  EXPECT_EQ(text(storage_->read(path("a/empty"))), "");
  EXPECT_EQ(text(storage_->read_range(path("a/b/file"), 1, 3)), "eco");
  EXPECT_EQ(text(storage_->read_range(path("a/b/file"), 6, 0)), "");
  EXPECT_EQ(storage_->list(path("a")), (std::vector<std::string>{"b", "empty"}));
  EXPECT_EQ(storage_->list(path("a/b/")), (std::vector<std::string>{"file"}));
  EXPECT_TRUE(storage_->list(path("nothing")).empty());
  EXPECT_TRUE(storage_->exists(path("a")));
  EXPECT_TRUE(storage_->exists(path("a/b/file")));
  EXPECT_FALSE(storage_->exists(path("a/b/fil")));
}

TEST_P(EachStorage, AppendsToTheEnd) {
  storage_->append(path("log/lines"), view("one\n"));
  storage_->append(path("log/lines"), view("two\n"));
  EXPECT_EQ(text(storage_->read(path("log/lines"))), "one\ntwo\n");
}

TEST_P(EachStorage, RemovesFilesAndFolders) {
  for (const char* name : {"a/x", "a/b/y", "ab"}) storage_->write_atomic(path(name), view("1"));
  storage_->remove(path("a"));
  storage_->remove(path("never"));
  EXPECT_FALSE(storage_->exists(path("a/x")));
  EXPECT_FALSE(storage_->exists(path("a/b/y")));
  EXPECT_TRUE(storage_->exists(path("ab")));
}

TEST_P(EachStorage, SaysWhichFileCannotBeReadAndWhy) {
  EXPECT_EQ(error_of(ErrorKind::Data, [&] { storage_->read(path("x")); }),
            path("x") + ": cannot be read: No such file or directory");
  storage_->write_atomic(path("x"), view("12345"));
  EXPECT_EQ(error_of(ErrorKind::Data, [&] { storage_->read_range(path("x"), 3, 4); }),
            path("x") + ": cannot be read: it is cut short: bytes 3 to 7 are wanted, it ends at 5");
  EXPECT_THROW(storage_->read_range(path("x"), 9, 1), Error);
}

TEST(FileStorage, AFolderIsNoFile) {
  EXPECT_EQ(error_of(ErrorKind::Data, [] { FileStorage().read("/"); }), "/: cannot be read: it is a folder");
}

TEST(FileStorage, WhereNothingCanBeWrittenIsSaid) {
  EXPECT_THAT(error_of(ErrorKind::Output, [] { FileStorage().write_atomic("/proc/no/file", view("1")); }),
              testing::StartsWith("/proc/no/file: cannot be written: the folder /proc/no cannot be made: "));
  EXPECT_THAT(error_of(ErrorKind::Output, [] { FileStorage().append("/dev/full", view("1")); }),
              testing::Eq("/dev/full: cannot be written: No space left on device"));
}

// A write that fails half way (here at the process's file-size limit) leaves the old file and nothing else.
TEST(FileStorage, AFailedWriteLeavesNoTrace) {
  std::string pattern = (std::filesystem::temp_directory_path() / "taxon-storage-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  FileStorage storage;
  storage.write_atomic(pattern + "/file", view("old"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string big(5000, 'x');
  std::string message =
      error_of(ErrorKind::Resources, [&] { storage.write_atomic(pattern + "/file", view(big)); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, pattern + "/file: File too large: raise ulimit -f");
  EXPECT_EQ(text(storage.read(pattern + "/file")), "old");
  EXPECT_EQ(storage.list(pattern), (std::vector<std::string>{"file"}));
  std::filesystem::remove_all(pattern);
}

TEST(FileStorage, NoOpenFileLeftIsNotTheDatasFault) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string reading = error_of(ErrorKind::Resources, [] { FileStorage().read("/etc/passwd"); });
  const std::string writing =
      error_of(ErrorKind::Resources, [] { FileStorage().append("/tmp/no", view("1")); });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(reading, "/etc/passwd: Too many open files: raise ulimit -n");
  EXPECT_EQ(writing, "/tmp/no: Too many open files: raise ulimit -n");
}

/// A folder of the machine, removed at the end.
class Folder {
 public:
  Folder() { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "taxon-storage-XXXXXX").string();
};

// Killed while it writes: the kernel ends it at its file-size limit.
TEST(FileStorage, WhatAKilledWriteLeftIsRemovedAndNothingElse) {
  const Folder folder;
  FileStorage storage;
  storage.write_atomic(folder.path("checkpoints/step-1/rank"), view("old"));
  const pid_t writer = fork();
  if (writer == 0) {
    const rlimit small{1000, 1000};
    std::signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &small);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    storage.write_atomic(folder.path("checkpoints/step-1/rank"), view(std::string(5000, 'x')));
    _exit(0);
  }
  int status = 0;
  waitpid(writer, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  for (const char* name : {"notes.tmp", "a.tmp-1-2", "b.tmp-1-2-x", "c.tmp-1-2-3.txt"})
    storage.append(folder.path(name), view("the user's"));
  ASSERT_EQ(storage.list(folder.path("checkpoints/step-1")).size(), 2u);
  EXPECT_EQ(remove_abandoned_files(folder.path()), 1);
  EXPECT_EQ(storage.list(folder.path("checkpoints/step-1")), (std::vector<std::string>{"rank"}));
  EXPECT_EQ(storage.list(folder.path()).size(), 5u);
  EXPECT_EQ(remove_abandoned_files(folder.path("no/such/folder")), 0);
}

TEST(FileStorage, WhatSomebodyStillWritesStays) {
  const Folder folder;
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t writer = fork();
  if (writer == 0) {
    // What write_atomic does before its file has its name.
    const int fd = ::open(folder.path("f.tmp-1-1-0").c_str(), O_WRONLY | O_CREAT, 0666);
    ::flock(fd, LOCK_EX);
    [[maybe_unused]] auto said = ::write(ready[1], "x", 1);
    char byte;
    [[maybe_unused]] auto heard = ::read(go[0], &byte, 1);
    _exit(0);
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(remove_abandoned_files(folder.path()), 0);
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  waitpid(writer, nullptr, 0);
  EXPECT_EQ(remove_abandoned_files(folder.path()), 1);
  for (int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
}

// Four threads write while a fifth cleans as fast as it can.
TEST(FileStorage, CleaningDoesNotHarmWriters) {
  const Folder folder;
  std::atomic<bool> over{false};
  std::thread cleaner([&] {
    while (!over) remove_abandoned_files(folder.path());
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t)
    writers.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        EXPECT_NO_THROW(FileStorage().write_atomic(folder.path(std::to_string(t)), view("x")));
    });
  for (std::thread& writer : writers) writer.join();
  over = true;
  cleaner.join();
  EXPECT_EQ(FileStorage().list(folder.path()).size(), 4u);
}

TEST(HeldFolder, AFolderThatVanishesOrIsReplacedIsNoticed) {
  const Folder folder;
  FileStorage files;
  const std::string out = folder.path("runs/x");
  HeldFolder held(files, out);
  held.append(out + "/metrics.jsonl", view("1"));  // makes it
  held.append(folder.path("elsewhere"), view("1"));
  std::filesystem::rename(out, out + ".moved");
  EXPECT_EQ(error_of(ErrorKind::Output, [&] { held.append(out + "/metrics.jsonl", view("2")); }),
            out + ": the output folder has vanished while the run wrote to it");
  EXPECT_FALSE(files.exists(out));
  std::filesystem::create_directory(out);
  EXPECT_EQ(error_of(ErrorKind::Output, [&] { held.write_atomic(out + "/checkpoints/1/rank", view("2")); }),
            out + ": the output folder has been replaced while the run wrote to it");
  EXPECT_EQ(files.list(out).size(), 0u);
  held.append(folder.path("elsewhere"), view("1"));
}

TEST(MemoryStorage, ReadsShort) {
  MemoryStorage storage;
  storage.write_atomic("/f", view("12345"));
  storage.set_faults({.read_limit = 3});
  EXPECT_EQ(text(storage.read("/f")), "123");
  EXPECT_THROW(storage.read_range("/f", 2, 2), Error);
  storage.set_faults({});
  EXPECT_EQ(text(storage.read("/f")), "12345");
}

TEST(MemoryStorage, FillsUpAfterSomeBytes) {
  MemoryStorage storage;
  storage.write_atomic("/f", view("old"));
  storage.set_faults({.write_limit = 6});
  storage.append("/log", view("1234"));
  EXPECT_EQ(error_of(ErrorKind::Output, [&] { storage.write_atomic("/f", view("new")); }),
            "/f: cannot be written: No space left on device");
  EXPECT_EQ(text(storage.read("/f")), "old");
  storage.set_faults({.write_limit = 2});
  EXPECT_THROW(storage.append("/log", view("5678")), Error);
  EXPECT_EQ(text(storage.read("/log")), "123456");
}

TEST(MemoryStorage, ReadOnly) {
  MemoryStorage storage;
  storage.write_atomic("/f", view("old"));
  storage.set_faults({.read_only = true});
  EXPECT_EQ(error_of(ErrorKind::Output, [&] { storage.write_atomic("/f", view("new")); }),
            "/f: cannot be written: Read-only file system");
  EXPECT_THROW(storage.append("/f", view("new")), Error);
  EXPECT_THROW(storage.remove("/f"), Error);
  EXPECT_EQ(text(storage.read("/f")), "old");
  EXPECT_FALSE(storage.exists("/g"));
}

/// Hosts that share a file system may run processes of equal numbers.
TEST(FileStorage, WritersOfEqualProcessNumbersDoNotMeet) {
  const std::string path = testing::TempDir() + "taxon_storage_equal_numbers";
  std::vector<pid_t> writers;
  for (int i = 0; i < 2; ++i) {
    const pid_t writer = fork();
    if (writer != 0) {
      writers.push_back(writer);
      continue;
    }
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(77);
    const pid_t inside = fork();
    if (inside == 0) {
      try {
        const std::vector<std::byte> bytes(1000, std::byte(i));
        for (int round = 0; round < 200; ++round)
          FileStorage().write_atomic(path, ConstView(bytes.data(), bytes.size()));
        _exit(getpid() == 1 ? 0 : 1);
      } catch (...) {
        _exit(2);
      }
    }
    int status = 0;
    waitpid(inside, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  }
  std::vector<int> codes;
  for (pid_t writer : writers) {
    int status = 0;
    waitpid(writer, &status, 0);
    codes.push_back(WEXITSTATUS(status));
  }
  std::filesystem::remove(path);
  if (codes[0] == 77)
    GTEST_SKIP() << "this machine lets neither root nor users have process numbers of their own";
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace taxon::data
