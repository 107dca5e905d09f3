#include "launch/openmp_waiting.h"

#include <cstdlib>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "task/team.h"

namespace taxon::launch {
namespace {

/// libgomp ends the process where it can't start a thread, so that is tried before.
bool has_room_for(int threads) {
  std::promise<void> enough;
  std::shared_future<void> end = enough.get_future().share();
  std::vector<std::jthread> tried;
  bool all = true;
  try {
    for (int i = 0; i < threads; ++i) tried.emplace_back([end] { end.wait(); });
  } catch (const std::system_error&) {
    all = false;
  }
  enough.set_value();
  return all;
}

}  // namespace

const char* to_string(Waiting waiting) { return waiting == Waiting::Active ? "active" : "passive"; }

/// OpenMP keeps a team for every thread that used one, until that thread ends.
class OpenMpWaiting::Ballast {
 public:
  explicit Ballast(int threads) : thread_([this, threads] { hold(threads); }) { there_.get_future().wait(); }
  ~Ballast() { end_.set_value(); }

 private:
  void hold(int threads) {
    task::by_team(threads, [](int) {});
    there_.set_value();
    end_.get_future().wait();
  }

  std::promise<void> there_, end_;
  std::jthread thread_;  // last: it uses the others
};

OpenMpWaiting::OpenMpWaiting(int cores) : threads_(cores + 1) {}
OpenMpWaiting::~OpenMpWaiting() = default;

bool OpenMpWaiting::is_given() {
  return std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
}

Waiting OpenMpWaiting::set(Waiting waiting) {
  if (waiting == Waiting::Active)
    ballast_.reset();
  else if (!ballast_ && has_room_for(threads_))
    ballast_ = std::make_unique<Ballast>(threads_);
  return now();
}

}  // namespace taxon::launch
