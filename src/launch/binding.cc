#include "launch/binding.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "launch/host.h"

namespace taxon::launch {
namespace {

constexpr std::uint64_t kShortest = 100'000, kUsual = 0;  // nanoseconds of a turn

void take_turns_of(std::uint64_t nanoseconds) {
  // sched_setattr(2), which the C library does not declare.
  struct Attributes {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;  // somebody has chosen
  attributes.size = sizeof attributes;
  attributes.flags = 0x01;  // SCHED_FLAG_RESET_ON_FORK
  attributes.runtime = nanoseconds;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

std::vector<int> share_of_cores(const std::vector<std::vector<int>>& allowed, int me, int threads) {
  const std::vector<int>& mine = allowed[static_cast<std::size_t>(me)];
  const std::size_t ranks = allowed.size(), rank = static_cast<std::size_t>(me);
  const bool bound =
      std::any_of(allowed.begin(), allowed.end(), [&](const auto& cores) { return cores != mine; });
  if (ranks == 1 || bound || mine.size() < ranks * static_cast<std::size_t>(threads)) return {};
  const auto at = [&](std::size_t r) {
    return mine.begin() + static_cast<std::ptrdiff_t>(r * mine.size() / ranks);
  };
  return {at(rank), at(rank + 1)};
}

int ranks_on_cores_of(const std::vector<std::vector<int>>& allowed, int me) {
  const std::vector<int>& mine = allowed[static_cast<std::size_t>(me)];
  return static_cast<int>(std::count_if(allowed.begin(), allowed.end(), [&](const std::vector<int>& cores) {
    return &cores == &mine || std::any_of(cores.begin(), cores.end(), [&](int core) {
      return std::find(mine.begin(), mine.end(), core) != mine.end();
    });
  }));
}

void bind_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(static_cast<unsigned>(core), &set);
  sched_setaffinity(0, sizeof set, &set);
}

CommunicatingThread::CommunicatingThread(std::optional<int> core) {
  take_turns_of(kShortest);
  if (!core) return;
  cores_ = allowed_cores();
  bind_to({*core});
}

CommunicatingThread::~CommunicatingThread() {
  take_turns_of(kUsual);
  if (!cores_.empty()) bind_to(cores_);
}

}  // namespace taxon::launch
