#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <vector>

#include "net/loopback/loopback.h"
#include "task/poll_loop.h"
#include "task/scope.h"

namespace taxon::test {

/// What every rank runs. The callable outlives its coroutines, so that a lambda may capture here.
using RankBody = std::function<task::Task<void>(net::Transport&)>;

/// Fails a test that hangs long before the test driver kills it, and says who waits for what: so many looks
/// in a row find every rank in the same waits. Between two of them all that is ready runs, however long that
/// takes on a busy machine or under a sanitizer.
constexpr int kLooks = 60;
constexpr std::chrono::seconds kLookEvery{1};

namespace detail {

inline task::Task<void> run_rank(const RankBody& body, net::Transport& transport,
                                 const std::function<void(std::exception_ptr)>& fail) {
  std::exception_ptr error;
  try {
    auto task = body(transport);
    co_await task;
  } catch (...) {
    error = std::current_exception();
  }
  if (error) fail(error);
}

struct RankWait {
  Rank rank;
  task::WaitInfo wait;
  bool operator==(const RankWait& other) const {
    return rank == other.rank && wait.since == other.wait.since && wait.operation == other.wait.operation &&
           wait.subject == other.wait.subject;
  }
};
inline std::vector<RankWait> waits_of(const std::vector<net::Transport*>& ranks) {
  std::vector<RankWait> all;
  for (net::Transport* rank : ranks)
    for (task::WaitInfo& wait : rank->pending().snapshot()) all.push_back({rank->rank(), std::move(wait)});
  return all;
}

inline task::Task<void> watch(const std::vector<net::Transport*>& ranks, task::PendingOps& waits,
                              const std::function<void()>& hang) {
  task::Executor& executor = ranks.front()->executor();
  std::vector<RankWait> last;
  try {
    for (int alike = 0; alike < kLooks;) {
      task::SleepUntil look(executor, waits, executor.now() + Duration(kLookEvery));
      co_await look;
      std::vector<RankWait> now = waits_of(ranks);
      alike = now == last ? alike + 1 : 0;
      last = std::move(now);
    }
  } catch (...) {  // the ranks are done
    co_return;
  }
  hang();
}

inline task::Task<void> run_all(const std::vector<net::Transport*>& ranks, const RankBody& body) {
  std::exception_ptr first;
  std::function<void(std::exception_ptr)> fail = [&](std::exception_ptr error) {
    if (!first) first = error;
    for (net::Transport* rank : ranks) rank->pending().cancel(error);
  };
  std::function<void()> hang = [&] {
    for (const auto& [rank, wait] : waits_of(ranks))
      std::cerr << "rank " << rank.value() << " waits in " << wait.operation << " for rank "
                << (wait.peer ? wait.peer->value() : -1) << ": " << wait.subject << "\n";
    fail(std::make_exception_ptr(Error(ErrorKind::Deadline, "the test hangs")));
  };
  task::PendingOps none, watch_waits;
  task::Scope watch_scope(none), scope(none);
  watch_scope.spawn(watch(ranks, watch_waits, hang));
  for (net::Transport* rank : ranks) scope.spawn(run_rank(body, *rank, fail));
  co_await scope.join();
  watch_waits.cancel(std::make_exception_ptr(Error(ErrorKind::Internal, "over")));
  co_await watch_scope.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace detail

/// Runs `body` for every transport, all on `loop`, until all are done. The first failure cancels every rank
/// and is thrown.
inline void run_transports(task::PollLoop& loop, const std::vector<net::Transport*>& ranks,
                           const RankBody& body) {
  loop.run(detail::run_all(ranks, body));
}

/// Runs `body` as `n` ranks of a loopback world.
inline void run_ranks(int n, const RankBody& body, net::LoopbackOptions options = {}) {
  task::PollLoop loop;
  net::LoopbackWorld world(loop, n, options);
  std::vector<net::Transport*> ranks;
  for (int i = 0; i < n; ++i) ranks.push_back(&world.transport(Rank(i)));
  run_transports(loop, ranks, body);
}

/// One empty message between two ranks, each way, so that both endpoints exist: UCX 1.13 aborts when a rank
/// leaves in the middle of a connection's handshake.
inline task::Task<void> greet(net::Transport& net) {
  Rank peer(1 - net.rank().value());
  net::RecvOp recv(net, peer, net::Tag{.unit = 99}, {}, DType::UInt8);
  net::SendOp send(net, peer, net::Tag{.unit = 99}, {}, DType::UInt8);
  co_await send;
  co_await recv;
}

}  // namespace taxon::test
