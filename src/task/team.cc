#include "task/team.h"

#include <atomic>
#include <exception>
#include <mutex>

// What a compiler makes of `#pragma omp parallel`, by name: libgomp's threads serve libtorch, whichever
// compiler this is and whichever OpenMP that one would bring.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);

namespace taxon::task {
namespace {

struct Work {
  const std::function<void(int)>& body;
  const int parts;
  std::atomic<int> next{0}, ended{0};
  std::mutex mutex;
  std::exception_ptr error;  // protected by mutex

  /// Of a team that may be smaller than was asked for.
  void take() {
    for (int part; (part = next.fetch_add(1, std::memory_order_acq_rel)) < parts;) {
      try {
        body(part);
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
      ended.fetch_add(1, std::memory_order_release);
    }
  }
};

}  // namespace

void by_team(int parts, const std::function<void(int)>& body) {
  Work work{body, parts, {}, {}, {}, {}};
  work.next.store(0, std::memory_order_release);  // libgomp's own barriers are unknown to ThreadSanitizer
  GOMP_parallel([](void* data) { static_cast<Work*>(data)->take(); }, &work, static_cast<unsigned>(parts), 0);
  work.ended.load(std::memory_order_acquire);
  const std::lock_guard lock(work.mutex);
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace taxon::task
