#include "tensor/cpu_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>

#include "task/poll_loop.h"
#include "task/scope.h"

namespace taxon::tensor {
namespace {

using Log = std::vector<std::string>;

struct World {
  explicit World(CpuDeviceOptions options = {}) : device(loop, std::move(options)) {}
  task::PollLoop loop;
  task::PendingOps waits;
  CpuDevice device;
  Log log;
};

Kernel kernel(std::string name, UniqueFunction<void(Milestones&)> body, int marks = 0) {
  return Kernel{std::move(name), {}, std::move(body), marks, {}};
}

task::Task<void> run_one(World* w, Stream stream, UniqueFunction<void(Milestones&)> body, int marks = 0) {
  Kernel work = kernel("one", std::move(body), marks);
  auto running = run(w->device, w->waits, stream, std::move(work));
  co_await running;
}

TEST(CpuDevice, RunsLongLanesOnThreadsOfTheirOwnAndTheExchangeLaneOnTheExecutors) {
  World w;
  std::thread::id compute, compute_again, data, exchange, main = std::this_thread::get_id();
  w.loop.run(run_one(&w, Stream::Compute, [&](Milestones&) { compute = std::this_thread::get_id(); }));
  w.loop.run(run_one(&w, Stream::Compute, [&](Milestones&) { compute_again = std::this_thread::get_id(); }));
  w.loop.run(run_one(&w, Stream::Data, [&](Milestones&) { data = std::this_thread::get_id(); }));
  w.loop.run(run_one(&w, Stream::Exchange, [&](Milestones&) { exchange = std::this_thread::get_id(); }));
  EXPECT_NE(compute, std::thread::id());
  EXPECT_EQ(compute, compute_again) << "libraries keep state per thread";
  EXPECT_NE(compute, main);
  EXPECT_NE(data, main);
  EXPECT_NE(data, compute);
  EXPECT_EQ(exchange, main);
}

task::Task<void> two_at_once(World* w, int threads, bool* met) {
  tensor::CpuDevice device(w->loop, {.data_threads = threads});
  EXPECT_EQ(device.threads(Stream::Data), threads);
  EXPECT_EQ(device.threads(Stream::Compute), 1);
  std::latch both(2);
  bool first_met = false;
  auto wait_for_other = [&both](bool* met_here) {
    return [&both, met_here](Milestones&) {
      both.arrive_and_wait();
      *met_here = true;
    };
  };
  Kernel first = kernel("first", wait_for_other(&first_met)), second = kernel("second", wait_for_other(met));
  KernelHandle one(device, w->waits, Stream::Data, std::move(first));
  KernelHandle other(device, w->waits, Stream::Data, std::move(second));
  co_await one.finished();
  co_await other.finished();
  *met = *met && first_met;
}

TEST(CpuDevice, KernelsOfTheDataStreamRunBesideEachOtherOnSeveralThreads) {
  World w;
  bool met = false;
  w.loop.run(two_at_once(&w, 2, &met));
  EXPECT_TRUE(met);
}

task::Task<void> ten_kernels(World* w, std::vector<int>* order) {
  std::vector<std::unique_ptr<KernelHandle>> jobs;
  for (int i = 0; i < 10; ++i) {
    Kernel work = kernel("k", [order, i](Milestones&) { order->push_back(i); });
    jobs.push_back(std::make_unique<KernelHandle>(w->device, w->waits, Stream::Compute, std::move(work)));
  }
  for (auto& job : jobs) {
    auto end = job->finished();
    co_await end;
    EXPECT_TRUE(job->done());
  }
}

TEST(CpuDevice, KernelsOfALaneRunInTheOrderOfTheirStart) {
  World w;
  std::vector<int> order;
  w.loop.run(ten_kernels(&w, &order));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

/// The compute kernel can only end when the data kernel ran: the streams must not wait for each other.
task::Task<void> lanes_together(World* w) {
  std::promise<void> opened;
  std::future<void> gate = opened.get_future();
  Kernel waiting = kernel("waits", [&gate](Milestones&) { gate.wait(); });
  Kernel opening = kernel("opens", [&opened](Milestones&) { opened.set_value(); });
  KernelHandle compute(w->device, w->waits, Stream::Compute, std::move(waiting));
  KernelHandle data(w->device, w->waits, Stream::Data, std::move(opening));
  auto end = compute.finished();
  co_await end;
  auto other = data.finished();
  co_await other;
}

TEST(CpuDevice, LanesRunBesideEachOther) {
  World w;
  w.loop.run(lanes_together(&w));
}

task::Task<void> wait_mark(World* w, KernelHandle* job, int index) {
  auto at = job->at(index, "bucket " + std::to_string(index));
  co_await at;
  w->log.push_back("mark " + std::to_string(index));
}

task::Task<void> marks_in_order(World* w) {
  std::promise<void> go;
  std::future<void> started = go.get_future();
  Kernel work = kernel(
      "backward",
      [&started](Milestones& marks) {
        started.wait();
        for (int i : {2, 0, 1}) marks.reached(i);
      },
      4);
  KernelHandle job(w->device, w->waits, Stream::Compute, std::move(work));
  task::Scope scope(w->waits);
  for (int i = 0; i < 4; ++i) {
    auto child = wait_mark(w, &job, i);
    scope.spawn(std::move(child));
  }
  auto snapshot = w->waits.snapshot();
  EXPECT_EQ(snapshot.size(), 4U);
  EXPECT_EQ(snapshot.empty() ? "" : snapshot[0].operation, "backward");
  EXPECT_EQ(snapshot.empty() ? "" : snapshot[0].subject, "bucket 0");
  go.set_value();
  auto end = job.finished();
  co_await end;
  w->log.push_back("end");
  auto join = scope.join();
  co_await join;
}

TEST(CpuDevice, MarksReachTheExecutorInTheOrderOfTheBody) {
  World w;
  w.loop.run(marks_in_order(&w));
  EXPECT_EQ(w.log, (Log{"mark 2", "mark 0", "mark 1", "mark 3", "end"}))
      << "a mark that the body never reached is released by the kernel's end";
}

TEST(CpuDevice, ComputesOnTheExecutorsThreadWhereThatIsAsked) {
  World w({.computes_here = true});
  std::thread::id compute;
  w.loop.run(run_one(&w, Stream::Compute, [&](Milestones&) { compute = std::this_thread::get_id(); }));
  EXPECT_EQ(compute, std::this_thread::get_id());
  w.loop.run(marks_in_order(&w));
  EXPECT_EQ(w.log, (Log{"mark 2", "mark 0", "mark 1", "mark 3", "end"}));
  EXPECT_THROW(
      w.loop.run(run_one(&w, Stream::Compute, [](Milestones&) { throw std::runtime_error("body"); })),
      std::runtime_error);
}

task::Task<void> mark_before_end(World* w) {
  std::promise<void> seen;
  std::future<void> wait_seen = seen.get_future();
  Kernel work = kernel(
      "backward",
      [&wait_seen](Milestones& marks) {
        marks.reached(0);
        wait_seen.wait();
      },
      1);
  KernelHandle job(w->device, w->waits, Stream::Compute, std::move(work));
  auto at = job.at(0);
  co_await at;
  EXPECT_FALSE(job.done());
  seen.set_value();
  auto end = job.finished();
  co_await end;
}

TEST(CpuDevice, AMarkIsSeenWhileTheKernelRuns) {
  World w;
  w.loop.run(mark_before_end(&w));
}

TEST(CpuDevice, ExceptionsOfABodyReachWhoWaits) {
  World w;
  for (Stream stream : {Stream::Compute, Stream::Exchange, Stream::Data})
    EXPECT_THROW(w.loop.run(run_one(&w, stream, [](Milestones&) { throw std::runtime_error("body"); })),
                 std::runtime_error);
  int ran = 0;
  w.loop.run(run_one(&w, Stream::Compute, [&](Milestones&) { ++ran; }));
  EXPECT_EQ(ran, 1) << "the stream goes on";
}

task::Task<void> failing_marks(World* w) {
  Kernel work = kernel(
      "backward",
      [](Milestones& marks) {
        marks.reached(0);
        throw std::runtime_error("out of memory");
      },
      2);
  KernelHandle job(w->device, w->waits, Stream::Compute, std::move(work));
  auto first = job.at(0);
  co_await first;
  std::string thrown;
  try {
    auto second = job.at(1);
    co_await second;
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  w->log.push_back(thrown);
  try {
    auto end = job.finished();
    co_await end;
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  w->log.push_back("end: " + thrown);
}

/// An exception that says on which thread it was destroyed.
struct Witness {
  std::atomic<std::thread::id>* end;
  ~Witness() { *end = std::this_thread::get_id(); }
};

TEST(CpuDevice, AnErrorDiesOnTheThreadThatReadsIt) {
  for (int i = 0; i < 50; ++i) {
    std::atomic<std::thread::id> end;
    {
      World w;
      EXPECT_THROW(w.loop.run(run_one(&w, Stream::Compute, [&end](Milestones&) { throw Witness{&end}; })),
                   Witness);
    }
    ASSERT_EQ(end.load(), std::this_thread::get_id());
  }
}

TEST(CpuDevice, AFailingBodyFailsItsOpenMarksAndItsEnd) {
  World w;
  w.loop.run(failing_marks(&w));
  EXPECT_EQ(w.log, (Log{"out of memory", "end: out of memory"}));
}

/// A rank that is cancelled still waits for its kernel: the body reads memory of the waiting frame.
task::Task<void> cancelled_kernel(World* w) {
  std::promise<void> go;
  std::future<void> gate = go.get_future();
  std::atomic<bool> body_over{false};
  Kernel work = kernel(
      "long",
      [&](Milestones&) {
        gate.wait();
        body_over = true;
      },
      1);
  KernelHandle job(w->device, w->waits, Stream::Compute, std::move(work));
  w->waits.cancel(std::make_exception_ptr(std::runtime_error("peer lost")));
  std::string thrown;
  try {
    auto at = job.at(0);
    co_await at;
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  EXPECT_EQ(thrown, "peer lost");
  go.set_value();
  auto end = job.finished();
  co_await end;
  EXPECT_TRUE(body_over);
}

TEST(CpuDevice, ACancelledRankStillWaitsForItsKernels) {
  World w;
  w.loop.run(cancelled_kernel(&w));
}

TEST(JobDeathTest, DoesNotDieWhileItsKernelRuns) {
  EXPECT_DEATH(
      {
        World w;
        std::promise<void> never;
        auto gate = never.get_future().share();
        KernelHandle job(w.device, w.waits, Stream::Compute,
                         kernel("long", [gate](Milestones&) { gate.wait(); }));
      },
      "kernel 'long' is still running");
}

TEST(CpuDevice, TellsNobodyOfMarksThatNobodyAwaits) {
  World w;
  w.loop.run(run_one(&w, Stream::Compute, [](Milestones& marks) { marks.reached(7); }));
}

TEST(JobDeathTest, RefusesMarksThatDoNotExist) {
  EXPECT_DEATH(
      {
        World w;
        KernelHandle job(w.device, w.waits, Stream::Compute, kernel("k", {}, 2));
        job.at(2);
      },
      "mark 2 of 2");
  EXPECT_DEATH(
      {
        World w;
        const auto beyond = [](Milestones& marks) { marks.reached(1); };
        w.loop.run(run_one(&w, Stream::Compute, beyond, 1));
      },
      "mark 1 of 1");
  EXPECT_DEATH(
      {
        World w;
        KernelHandle job(w.device, w.waits, Stream::Exchange, kernel("k", {}, 1));
      },
      "nobody could await its marks");
}

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

void work_for(milliseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
  }
}

struct Seen {
  Clock::duration first{0}, whole{0};  // from the beginning
};

task::Task<void> watch_kernel(World* w, Stream stream, Seen* seen) {
  const auto begin = Clock::now();
  Kernel work = kernel(
      "work",
      [](Milestones& marks) {
        work_for(milliseconds(2));
        marks.reached(0);
        work_for(milliseconds(2));
      },
      1);
  KernelHandle job(w->device, w->waits, stream, std::move(work));
  auto milestone = job.at(0);
  co_await milestone;
  seen->first = Clock::now() - begin;
  auto end = job.finished();
  co_await end;
  seen->whole = Clock::now() - begin;
}

TEST(CpuDevice, ComputesAsSlowlyAsTheMachineThatItPlays) {
  World w({.speed_emulator = {.slowdown = [] { return 5; }}});
  Seen compute, data;
  w.loop.run(watch_kernel(&w, Stream::Compute, &compute));
  EXPECT_GE(compute.first, milliseconds(10)) << "milestones are as late as the end";
  EXPECT_GE(compute.whole, milliseconds(20));
  int asked = 0;
  World once({.speed_emulator = {.slowdown = [&asked] { return ++asked; }}});
  once.loop.run(watch_kernel(&once, Stream::Data, &data));
  EXPECT_EQ(asked, 0);
  once.loop.run(watch_kernel(&once, Stream::Compute, &data));
  once.loop.run(watch_kernel(&once, Stream::Compute, &data));
  EXPECT_EQ(asked, 2) << "once for a kernel";
  World here({.computes_here = true, .speed_emulator = {.slowdown = [] { return 5; }}});
  here.loop.run(watch_kernel(&here, Stream::Compute, &compute));
  EXPECT_GE(compute.whole, milliseconds(20));
}

task::Task<void> use_the_processor(World* w, Clock::duration* whole) {
  const auto begin = Clock::now();
  Kernel work = kernel("work", [](Milestones&) {
    const auto spent = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    };
    for (const auto end = spent() + milliseconds(3); spent() < end;) {
    }
  });
  auto running = run(w->device, w->waits, Stream::Compute, std::move(work));
  co_await running;
  *whole = Clock::now() - begin;
}

/// Whoever else uses the cores meanwhile takes nothing away, as long as enough is left.
TEST(CpuDevice, CoresAreOfProcessorTime) {
  World w({.speed_emulator = {.cores = 0.1}});
  Clock::duration whole{0};
  w.loop.run(use_the_processor(&w, &whole));
  EXPECT_GE(whole, milliseconds(25));  // 3 ms of the thread's time
}

}  // namespace
}  // namespace taxon::tensor
