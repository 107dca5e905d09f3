#include "launch/binding.h"

#include <sched.h>

#include <algorithm>

namespace taxon::launch {

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

}  // namespace taxon::launch
