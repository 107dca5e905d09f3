#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/error.h"
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
      error_of(ErrorKind::Output, [&] { storage.write_atomic(pattern + "/file", view(big)); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, pattern + "/file: cannot be written: File too large");
  EXPECT_EQ(text(storage.read(pattern + "/file")), "old");
  EXPECT_EQ(storage.list(pattern), (std::vector<std::string>{"file"}));
  std::filesystem::remove_all(pattern);
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
