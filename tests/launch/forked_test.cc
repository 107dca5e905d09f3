#include "launch/forked.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <iterator>
#include <thread>

#include "base/error.h"

namespace taxon::launch {
namespace {

using testing::StartsWith;

/// GoogleTest runs suites of this ending first: before other tests have left OpenMP's threads.
class ForkedDeathTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(has_one_thread()); }
};

Error error_of(const std::function<void()>& work) {
  try {
    run_apart("work", work);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::Internal, "nothing was thrown"};
}

TEST_F(ForkedDeathTest, WorkDoneApartLeavesNothingBehind) {
  int here = 0;
  run_apart("work", [&] {
    here = 1;
    std::thread([] { pause(); }).detach();
  });
  EXPECT_EQ(here, 0);
  EXPECT_TRUE(has_one_thread());
}

TEST_F(ForkedDeathTest, ErrorsOfWorkDoneApartAreThrownHere) {
  const std::string sentence(100'000, 's');
  const Error error = error_of([&] { throw Error(ErrorKind::Data, sentence); });
  EXPECT_EQ(error.kind(), ErrorKind::Data);
  EXPECT_EQ(error.what(), sentence);
  EXPECT_EQ(error_of([] { throw std::bad_alloc(); }).kind(), ErrorKind::Resources);
}

TEST_F(ForkedDeathTest, ErrorsAreThrownWhereTheSystemForgetsHowChildrenEnd) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const Error error = error_of([] { throw Error(ErrorKind::Data, "a sentence"); });
  signal(SIGCHLD, before);
  EXPECT_EQ(error.kind(), ErrorKind::Data);
}

TEST_F(ForkedDeathTest, AnEndWithoutAWordIsAnErrorToo) {
  const Error killed = error_of([] { raise(SIGKILL); });
  EXPECT_EQ(killed.kind(), ErrorKind::Resources);
  EXPECT_THAT(killed.what(), StartsWith("work was killed by signal 9"));
  EXPECT_EQ(error_of([] { _exit(exit_code(ErrorKind::Resources)); }).kind(), ErrorKind::Resources);
  EXPECT_EQ(error_of([] { _exit(1); }).kind(), ErrorKind::Internal);
}

TEST_F(ForkedDeathTest, AProcessWithThreadsDoesTheWorkItself) {
  std::promise<void> end;
  std::jthread other([&] { end.get_future().wait(); });
  EXPECT_FALSE(has_one_thread());
  int here = 0;
  run_apart("work", [&] { here = 1; });
  EXPECT_EQ(here, 1);
  end.set_value();
}

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

constexpr int kClosed = 200, kKept = 201;  // descriptors

/// 0, or the number of what is not as after exec.
int find_fault(int argc, char** argv) {
  if (argc != 2 || argv[1] != std::string("word") || argv[2] != nullptr) return 1;
  if (const char* rank = std::getenv("RANK"); rank == nullptr || rank != std::string("3")) return 2;
  if (std::getenv("HOME") != nullptr) return 3;
  if (!text_of("/proc/self/environ").starts_with(std::string("RANK=3\0MORE=x\0\0", 15))) return 4;
  if (fcntl(kClosed, F_GETFD) >= 0) return 5;
  if (fcntl(kKept, F_GETFD) < 0) return 6;
  return 0;
}

TEST_F(ForkedDeathTest, AMainFunctionFindsWhatItWouldFindAfterExec) {
  ASSERT_NE(std::getenv("HOME"), nullptr);
  ASSERT_EQ(dup3(STDERR_FILENO, kClosed, O_CLOEXEC), kClosed);
  ASSERT_EQ(dup2(STDERR_FILENO, kKept), kKept);
  const pid_t child = fork();
  if (child == 0) run_main(find_fault, CStrings({"program", "word"}), CStrings({"RANK=3", "MORE=x"}));
  int status = 0;
  waitpid(child, &status, 0);
  close(kClosed), close(kKept);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ForkedDeathTest, ASignalThatWasHandledEndsAChildAgain) {
  struct sigaction handled {
  }, before{};
  handled.sa_handler = [](int) {};
  sigaction(SIGUSR1, &handled, &before);
  const pid_t child = fork();
  if (child == 0) {
    handle_no_signal();
    raise(SIGUSR1);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1) << status;
}

}  // namespace
}  // namespace taxon::launch
