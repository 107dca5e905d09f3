// Local workers as real processes. They are shells, told what to do by their rank.
#include "launch/local_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "launch/children.h"
#include "launch/stop_signals.h"

namespace taxon::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LocalLauncher : public testing::Test {
 protected:
  LocalLauncher() : folder_(testing::TempDir() + "/launch." + std::to_string(getpid())) {
    launch_.workers = 3;
    launch_.program = "/bin/sh";
    launch_.say = [this](const std::string& line) { log_ += line + "\n"; };
    launch_.environment = {{"FOLDER", folder_}};
    launch_.on_start = [this](int, pid_t pid) { pids_.push_back(pid); };
    launch_.patience = std::chrono::milliseconds(50);
    launch_.last_patience = std::chrono::milliseconds(50);
    mkdir_folder();
  }
  ~LocalLauncher() override {
    for (pid_t pid : pids_) EXPECT_NE(kill(pid, 0), 0) << "process " << pid << " is left";
    [[maybe_unused]] int rc = system(("rm -rf " + folder_).c_str());
  }
  int run(const std::string& script) {
    launch_.command_line = {"sh", "-c", script};
    return run_workers(launch_);
  }
  std::string text_of(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(folder_ + "/" + file).rdbuf();
    return text.str();
  }
  void mkdir_folder() { [[maybe_unused]] int rc = system(("mkdir -p " + folder_).c_str()); }

  std::string folder_;
  LocalLaunch launch_;
  std::string log_;
  std::vector<pid_t> pids_;
};

TEST_F(LocalLauncher, WorkersKnowTheirPlace) {
  setenv("OMPI_COMM_WORLD_RANK", "7", 1);
  int code =
      run("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $OMPI_COMM_WORLD_RANK > "
          "$FOLDER/$RANK; "
          "echo $MASTER_PORT ${#TAXON_SECRET} $TAXON_SECRET > $FOLDER/common$RANK");
  unsetenv("OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(code, 0);
  EXPECT_EQ(log_, "");
  for (int r = 0; r < 3; ++r) {
    std::string rank = std::to_string(r);
    EXPECT_EQ(text_of(rank), rank + " 3 " + rank + " 3 127.0.0.1\n");
    EXPECT_EQ(text_of("common" + rank), text_of("common0"));
  }
  EXPECT_THAT(text_of("common0"), HasSubstr(" 64 "));
}

/// As a worker that is a fork: touches a file named after its rank, and ends with its rank as exit code.
int end_with_rank(int, char**) {
  const std::string rank = std::getenv("RANK");
  std::ofstream(std::string(std::getenv("FOLDER")) + "/forked" + rank) << getppid();
  return std::stoi(rank);
}

/// GoogleTest runs suites of this ending first: before other tests have left OpenMP's threads.
using LocalLauncherDeathTest = LocalLauncher;

TEST_F(LocalLauncherDeathTest, WorkersMayBeForksOfThisProcess) {
  launch_.workers = 2;
  launch_.main = end_with_rank;
  EXPECT_EQ(run("exit 9"), 1);
  EXPECT_THAT(log_, HasSubstr("rank 1 (process " + std::to_string(pids_[1]) + ") failed with exit code 1"));
  for (const char* file : {"forked0", "forked1"}) EXPECT_EQ(text_of(file), std::to_string(getpid()));
}

/// As a worker that is a fork and is signalled before it has done anything.
int end_by_signal(int, char**) {
  raise(std::getenv("RANK") == std::string("1") ? SIGUSR1 : SIGINT);
  return 9;
}

TEST_F(LocalLauncherDeathTest, ForksHaveTheFirstHandlersOfSignalsToo) {
  launch_.workers = 2;
  launch_.main = end_by_signal;
  EXPECT_EQ(run("exit 9"), 143);
  EXPECT_EQ(log_, "");
}

TEST_F(LocalLauncher, AProcessWithThreadsExecutesItsWorkers) {
  std::promise<void> end;
  std::jthread other([&] { end.get_future().wait(); });
  launch_.main = end_with_rank;
  EXPECT_EQ(run("exit 9"), 9);
  end.set_value();
}

/// An agent has one: it reads what its launcher says.
TEST_F(LocalLauncher, AThreadThatReadsStandardInputHoldsNothingUp) {
  std::promise<void> reading, end;
  std::jthread reader([&] {
    flockfile(stdin);
    reading.set_value();
    end.get_future().wait();
    funlockfile(stdin);
  });
  reading.get_future().wait();
  EXPECT_EQ(run("exit 0"), 0);
  end.set_value();
}

TEST_F(LocalLauncher, WorkersMeetAtTheReservedPort) {
  EXPECT_EQ(run("echo leave | " CONTROL_PEER " $RANK $WORLD_SIZE $MASTER_PORT 60000 > $FOLDER/$RANK"), 0);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(text_of(std::to_string(r)), "joined\nleft\n");
}

TEST_F(LocalLauncher, TheFirstThatFailsIsNamedAndTheOthersAreEnded) {
  EXPECT_EQ(run("if [ $RANK = 1 ]; then exit 65; fi; exec sleep 1000"), 65);
  EXPECT_THAT(log_, AllOf(HasSubstr("rank 1 (process " + std::to_string(pids_[1]) + ")"),
                          HasSubstr("failed with exit code 65 (data); the others have 50.00 ms to end")));
}

/// Somebody else's signal, before all have met: no failure, and what the others wait for does not come.
TEST_F(LocalLauncher, WhoIsStoppedBeforeAllHaveMetIsNotWaitedFor) {
  const control::Fd memory = Note::make();
  launch_.note = Note(memory.get());
  launch_.workers = 2;
  launch_.patience = launch_.last_patience = std::chrono::minutes(1);
  const std::string wait_for_news =
      "while ! grep -qs 'exit code 143' /proc/self/fd/$TAXON_LAUNCH_NOTE; do sleep 0.01; done; exit 75";
  EXPECT_EQ(run("if [ $RANK = 1 ]; then exit 143; fi; " + wait_for_news), 143);
  EXPECT_EQ(log_, "");
}

TEST_F(LocalLauncher, WhoIsStoppedLaterHasTheOthersEndInOrder) {
  const control::Fd memory = Note::make();
  launch_.note = Note(memory.get());
  launch_.note->begin();
  EXPECT_EQ(run("if [ $RANK = 1 ]; then exit 143; fi; sleep 0.1; exit 143"), 143);
  EXPECT_EQ(launch_.note->told(), "");
}

TEST_F(LocalLauncher, AWorkerThatIgnoresSigtermIsEndedToo) {
  EXPECT_EQ(run("if [ $RANK = 2 ]; then exit 1; fi; trap '' TERM; while true; do sleep 1000; done"), 1);
  EXPECT_THAT(log_, HasSubstr("rank 2 "));
}

TEST_F(LocalLauncher, AWorkerThatIsStoppedAtTheEndIsNamedAndEnded) {
  launch_.deadline = std::chrono::milliseconds(50);
  EXPECT_EQ(run("if [ $RANK = 1 ]; then kill -STOP $$; fi"), 74);
  EXPECT_THAT(log_, HasSubstr("rank 1 (process " + std::to_string(pids_[1]) +
                              ") has not ended, 50.00 ms after others did: it is ended now"));
}

TEST_F(LocalLauncher, WhoFailsAfterOthersHaveEndedIsTheCulprit) {
  EXPECT_EQ(run("if [ $RANK = 1 ]; then sleep 0.3; exit 73; fi; if [ $RANK = 2 ]; then exec sleep 1000; fi"),
            73);
  EXPECT_THAT(log_, HasSubstr("rank 1 (process " + std::to_string(pids_[1]) + ") failed with exit code 73"));
}

TEST_F(LocalLauncher, AKilledWorkerMeansTryAgain) {
  EXPECT_EQ(run("if [ $RANK = 0 ]; then kill -KILL $$; fi; exec sleep 1000"), 75);
  EXPECT_THAT(log_, AllOf(HasSubstr("rank 0 "), HasSubstr("was killed by signal 9 (Killed)")));
}

TEST_F(LocalLauncher, ACrashIs128PlusItsSignal) {
  EXPECT_EQ(run("if [ $RANK = 0 ]; then kill -SEGV $$; fi; exec sleep 1000"), 128 + SIGSEGV);
}

TEST_F(LocalLauncher, WhoOnlyComplainsAboutALossIsNotTheCulprit) {
  // Ranks 0 and 2 see the loss and end before rank 1 has.
  EXPECT_EQ(run("if [ $RANK = 1 ]; then while [ ! -e $FOLDER/0 -o ! -e $FOLDER/2 ]; do :; done; exit 66; fi; "
                "touch $FOLDER/$RANK; exit 75"),
            66);
  EXPECT_THAT(log_, HasSubstr("rank 1 "));
}

TEST_F(LocalLauncher, WhoFailsIsTheCulpritHoweverMuchLaterItEnds) {
  launch_.patience = launch_.early_patience = std::chrono::seconds(20);
  EXPECT_EQ(run("if [ $RANK = 1 ]; then sleep 1; exit 73; fi; exit 75"), 73);
  EXPECT_THAT(log_, HasSubstr("rank 1 (process " + std::to_string(pids_[1]) + ") failed with exit code 73"));
}

TEST_F(LocalLauncher, ALostWorkerThatTheOthersDidWithoutIsNotBlamedForWhatFailsLater) {
  launch_.expendable = {2};
  launch_.patience = launch_.early_patience = std::chrono::seconds(20);
  EXPECT_EQ(run("if [ $RANK = 2 ]; then touch $FOLDER/lost; kill -KILL $$; fi; "
                "while [ ! -e $FOLDER/lost ]; do sleep 0.01; done; sleep 0.$((2 + RANK * 3)); "
                "if [ $RANK = 1 ]; then exit 70; fi; exit 75"),
            70);
  EXPECT_THAT(log_, AllOf(HasSubstr("rank 2 "), HasSubstr("rank 1 (process " + std::to_string(pids_[1]) +
                                                          ") failed with exit code 70")));
}

TEST_F(LocalLauncher, WhoStillJoinsIsToldWhoDiedAndTheDeadIsNamed) {
  launch_.expendable = {2};  // whom the others could do without later on
  launch_.patience = launch_.early_patience = std::chrono::seconds(20);
  EXPECT_EQ(run("if [ $RANK = 2 ]; then kill -KILL $$; fi; note=/proc/self/fd/$TAXON_LAUNCH_NOTE; "
                "while [ ! -s $note ]; do sleep 0.01; done; cat $note > $FOLDER/$RANK; exit 75"),
            75);
  const std::string dead = "rank 2 (process " + std::to_string(pids_[2]) + ") was killed by signal 9";
  EXPECT_THAT(log_, HasSubstr(dead));
  for (const char* rank : {"0", "1"}) EXPECT_THAT(text_of(rank), HasSubstr(dead));
}

TEST_F(LocalLauncher, WorkersThatHaveMetHaveLongerToEnd) {
  launch_.patience = std::chrono::seconds(20);
  launch_.early_patience = std::chrono::milliseconds(50);
  const std::string begin = "if [ $RANK = 0 ]; then printf 1 1<>/proc/self/fd/$TAXON_LAUNCH_NOTE; fi; ";
  const std::string body =
      "if [ $RANK = 1 ]; then sleep 0.5; exit 65; fi; trap 'exit 9' TERM; sleep 3; echo done > "
      "$FOLDER/$RANK; exit 75";
  EXPECT_EQ(run(body), 65);
  EXPECT_EQ(text_of("2"), "");
  EXPECT_EQ(run(begin + body), 65);
  EXPECT_EQ(text_of("2"), "done\n");
}

TEST_F(LocalLauncher, WorkersMayBeOnlySomeOfAJobsRanks) {
  launch_.job = WiderJob{
      .first_rank = 4, .world_size = 12, .node = 1, .address = "10.0.0.7", .port = 29511, .secret = "s"};
  EXPECT_EQ(run("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR $MASTER_PORT "
                "$TAXON_SECRET > $FOLDER/$LOCAL_RANK"),
            0);
  EXPECT_EQ(text_of("2"), "6 12 2 3 1 10.0.0.7 29511 s\n");
  launch_.expendable = {5};
  EXPECT_EQ(run("if [ $RANK = 5 ]; then kill -KILL $$; fi"), 3);
}

TEST_F(LocalLauncher, ALossThatNobodyCausedIsTheFailure) {
  EXPECT_EQ(run("if [ $RANK = 2 ]; then exit 74; fi; exec sleep 1000"), 74);
  EXPECT_THAT(log_, AllOf(HasSubstr("rank 2 "), HasSubstr("(deadline)")));
}

TEST_F(LocalLauncher, WhatAWorkerLeavesBehindGoesWithIt) {
  EXPECT_EQ(run("sleep 1000 & echo $! > $FOLDER/$RANK"), 0);
  for (int r = 0; r < 3; ++r) pids_.push_back(std::stoi(text_of(std::to_string(r))));
  // The children of dead workers are reaped by init, in its own time.
  for (pid_t pid : pids_)
    while (kill(pid, 0) == 0) std::this_thread::yield();
}

TEST_F(LocalLauncher, AMissingProgramIsSaid) {
  launch_.program = "/no/such/program";
  EXPECT_EQ(run(""), 127);
  EXPECT_THAT(log_, HasSubstr("could not be started"));
}

/// Tells this process's handlers `number` once all workers said that they are ready.
class Signaller {
 public:
  Signaller(std::string folder, int workers, std::vector<int> numbers)
      : thread_([folder = std::move(folder), workers, numbers = std::move(numbers)] {
          for (int number : numbers) {
            for (int r = 0; r < workers; ++r) {
              std::string file = folder + "/ready" + std::to_string(number) + "." + std::to_string(r);
              while (access(file.c_str(), F_OK) != 0) usleep(2000);
            }
            kill(getpid(), number);
          }
        }) {}
  ~Signaller() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST_F(LocalLauncher, OneSignalReachesAllWhoThenEndInTheirOwnTime) {
  Signaller signaller(folder_, 3, {SIGTERM});
  EXPECT_EQ(
      run("trap 'sleep 0.2; exit 143' TERM; touch $FOLDER/ready15.$RANK; while true; do sleep 0.01; done"),
      143);
  EXPECT_THAT(log_, AllOf(HasSubstr("Terminated"), HasSubstr("once more ends them now")));
}

TEST_F(LocalLauncher, ASignalThatComesBeforeAWorkerHandlesItIsAStopToo) {
  Signaller signaller(folder_, 3, {SIGINT});
  EXPECT_EQ(run("trap 'exit 143' INT; [ $RANK = 1 ] && trap - INT; touch $FOLDER/ready2.$RANK; "
                "while true; do sleep 0.01; done"),
            143);
  EXPECT_THAT(log_, testing::Not(HasSubstr("was killed")));
}

TEST_F(LocalLauncher, ASecondSignalEndsThemAtOnce) {
  Signaller signaller(folder_, 3, {SIGTERM, SIGINT});
  EXPECT_EQ(
      run("trap 'sleep 0.4; touch $FOLDER/ready2.$RANK' TERM; trap '' INT; touch $FOLDER/ready15.$RANK; "
          "while true; do sleep 0.01; done"),
      143);
}

/// Shells and the kernel both tell of a hang-up.
TEST_F(LocalLauncher, TheSameStopTwiceIsOne) {
  Signaller signaller(folder_, 3, {SIGTERM});
  launch_.on_stop = [] { kill(getpid(), SIGHUP); };
  EXPECT_EQ(run("trap 'sleep 0.2; touch $FOLDER/done.$RANK; exit 143' TERM; trap '' HUP; touch "
                "$FOLDER/ready15.$RANK; "
                "while true; do sleep 0.01; done"),
            143);
  for (const char* rank : {"0", "1", "2"})
    EXPECT_EQ(access((folder_ + "/done." + rank).c_str(), F_OK), 0) << "rank " << rank << " was killed";
}

TEST(StopCount, TheFirstOnceMoreDoesNotCount) {
  const std::chrono::steady_clock::time_point now{};
  StopCount stops;
  EXPECT_TRUE(stops.take(now));
  EXPECT_FALSE(stops.take(now + kSameStop / 2));
  EXPECT_EQ(stops.count(), 1);
  EXPECT_TRUE(stops.take(now + kSameStop));
  EXPECT_EQ(stops.count(), 2);
}

/// `taxon train R --workers 4 2>&1 | head -20`.
TEST_F(LocalLauncher, LinesThatNobodyReadsEndNothing) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  Signaller signaller(folder_, 3, {SIGTERM});
  launch_.say = [&](const std::string& line) {
    [[maybe_unused]] auto n = write(ends[1], line.data(), line.size());
  };
  EXPECT_EQ(run("trap 'sleep 0.1; touch $FOLDER/done.$RANK; exit 143' TERM; touch $FOLDER/ready15.$RANK; "
                "while true; do sleep 0.01; done"),
            143);
  close(ends[1]);
  EXPECT_EQ(access((folder_ + "/done.0").c_str(), F_OK), 0);
}

TEST_F(LocalLauncher, AWarningSignalBeforeAWorkerHandlesItIsAStop) {
  Signaller signaller(folder_, 3, {SIGUSR1});
  EXPECT_EQ(
      run(fmt::format("trap 'exit 143' USR1; [ $RANK = 1 ] && trap - USR1; touch $FOLDER/ready{}.$RANK; "
                      "while true; do sleep 0.01; done",
                      SIGUSR1)),
      143);
  EXPECT_THAT(log_, testing::Not(HasSubstr("was killed")));
}

TEST_F(LocalLauncher, ASignalBeforeItStartsAnythingStartsNothing) {
  const std::atomic<bool> stopped = true;
  launch_.stopped = &stopped;
  launch_.on_start = [](int, pid_t) { ADD_FAILURE() << "a worker was started"; };
  try {
    run("true");
    ADD_FAILURE() << "ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Interrupted);
  }
}

/// Whoever has more to start must know.
TEST_F(LocalLauncher, ASignalIsToldOfThoughAllWorkersEndWell) {
  Signaller signaller(folder_, 3, {SIGTERM});
  int stops = 0;
  launch_.on_stop = [&] { ++stops; };
  EXPECT_EQ(run("trap 'exit 0' TERM; touch $FOLDER/ready15.$RANK; while true; do sleep 0.01; done"), 0);
  EXPECT_EQ(stops, 1);
}

TEST_F(LocalLauncher, NoWorkerSurvivesTheLauncher) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  pid_t launcher = fork();
  if (launcher == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    launch_.on_start = [&](int, pid_t pid) {
      [[maybe_unused]] auto n = write(pipe_ends[1], &pid, sizeof pid);
    };
    launch_.command_line = {"sh", "-c", "exec sleep 1000"};
    _exit(run_workers(launch_));
  }
  std::vector<int> pidfds;
  for (int r = 0; r < 3; ++r) {
    pid_t pid = 0;
    ASSERT_EQ(read(pipe_ends[0], &pid, sizeof pid), ssize_t(sizeof pid));
    pidfds.push_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    ASSERT_GE(pidfds.back(), 0);
  }
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  for (int fd : pidfds) {
    pollfd ended{fd, POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, -1), 1);  // readable once the process has ended
    close(fd);
  }
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace
}  // namespace taxon::launch
