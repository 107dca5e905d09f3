#include "launch/core_pressure.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "launch/core_quota.h"

namespace taxon::launch {

double queued_share(const ThreadTime& time) {
  const double wanted = time.running + time.queued;
  return wanted > 0 ? time.queued / wanted : 0;
}

std::string describe_pressure(double share) {
  return fmt::format("threads waited {:.0f} % of the time for a core", share * 100);
}

CorePressure::CorePressure(std::string tasks, ControlGroups groups)
    : tasks_(std::move(tasks)), groups_(std::move(groups)) {
  take_share_of_others();
}

std::optional<ThreadTime> CorePressure::take() {
  constexpr double kNanosecond = 1e-9;
  ThreadTime since;
  std::map<std::string, ThreadTime> now;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator(tasks_, ignored)) {
    std::ifstream file(task.path() / "schedstat");
    double running = 0, queued = 0;
    if (!(file >> running >> queued)) continue;
    const std::string thread = task.path().filename().string();
    const ThreadTime total{running * kNanosecond, queued * kNanosecond};
    const auto before = seen_.find(thread);
    since.running += total.running - (before == seen_.end() ? 0 : before->second.running);
    since.queued += total.queued - (before == seen_.end() ? 0 : before->second.queued);
    now[thread] = total;
  }
  seen_ = std::move(now);
  if (seen_.empty()) return {};
  return since;
}

std::optional<double> CorePressure::take_share() {
  const auto time = take();
  if (!time) return {};
  return queued_share(*time);
}

std::optional<double> CorePressure::take_share_of_others() {
  const std::uint64_t before = std::exchange(pauses_, quota_pauses(groups_));
  const auto share = take_share();
  return pauses_ == before ? share : std::nullopt;
}

std::optional<double> probe_pressure(double seconds, int threads) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  CorePressure pressure;
  std::optional<double> seen;
  {
    std::vector<std::jthread> spinning;
    for (int i = 1; i < threads; ++i)
      spinning.emplace_back([end] {
        // Beyond the end, so that it is still there when it is counted.
        while (Clock::now() < end + std::chrono::milliseconds(20)) continue;
      });
    while (Clock::now() < end) continue;
    seen = pressure.take_share();
  }
  return seen;
}

}  // namespace taxon::launch
