#include "task/team.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

// What a compiler makes of `#pragma omp parallel`, by name: libgomp's threads serve libtorch, whichever
// compiler this is and whichever OpenMP that one would bring.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
extern "C" int omp_get_thread_num(void);

namespace taxon::task {
namespace {

thread_local std::vector<int> cores_of_team;  // of the thread that has it
thread_local int kept_to = -1;                // of its members; libgomp may let some end, and start others

void keep_to(const std::vector<int>& cores) {
  const auto member = static_cast<std::size_t>(omp_get_thread_num());
  if (member == 0 || member >= cores.size() || kept_to == cores[member]) return;
  kept_to = cores[member];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(kept_to), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

struct Work {
  const std::function<void(int)>& body;
  const std::vector<int>& cores;
  const int parts;
  std::atomic<int> next{0}, gone{0};
  std::mutex mutex;
  std::exception_ptr error;  // protected by mutex

  /// Of a team that may be smaller than was asked for. libgomp's own barriers order what its threads see;
  /// they are unknown to ThreadSanitizer, so `next` says when this is ready, and `gone` when a thread is done
  /// with it.
  void take() {
    next.load(std::memory_order_acquire);
    keep_to(cores);
    for (int part; (part = next.fetch_add(1, std::memory_order_relaxed)) < parts;) {
      try {
        body(part);
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    }
    gone.fetch_add(1, std::memory_order_release);
  }
};

}  // namespace

void by_team(int parts, const std::function<void(int)>& body) {
  Work work{body, cores_of_team, parts, {}, {}, {}, {}};
  work.next.store(0, std::memory_order_release);
  GOMP_parallel([](void* data) { static_cast<Work*>(data)->take(); }, &work, static_cast<unsigned>(parts), 0);
  work.gone.load(std::memory_order_acquire);
  const std::lock_guard lock(work.mutex);
  if (work.error) std::rethrow_exception(work.error);
}

void keep_team_to(std::vector<int> cores) { cores_of_team = std::move(cores); }

}  // namespace taxon::task
