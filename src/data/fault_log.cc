#include "data/fault_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace taxon::data {
namespace {

constexpr std::int64_t kMostNamed = 5;

}  // namespace

void FaultLog::found(const std::string& where, const std::string& why) {
  if (!skips())
    throw Error(
        ErrorKind::Data,
        fmt::format("{}: {}; mend or remove it, or leave such samples out by data.faulty: skip", where, why),
        {{}, "read", where});
  std::lock_guard lock(mutex_);
  if (!places_.insert(where).second) return;
  if (static_cast<std::int64_t>(places_.size()) - told_ <= kMostNamed)
    named_ += fmt::format("{}{}: {}", named_.empty() ? "" : "; ", where, why);
}

std::int64_t FaultLog::count() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(places_.size());
}

std::optional<std::string> FaultLog::news() {
  std::lock_guard lock(mutex_);
  return tell(std::max<std::int64_t>(1, told_));
}

std::optional<std::string> FaultLog::rest() {
  std::lock_guard lock(mutex_);
  return tell(1);
}

std::optional<std::string> FaultLog::tell(std::int64_t at_least) {
  const auto all = static_cast<std::int64_t>(places_.size());
  if (all - told_ < at_least) return {};
  const std::int64_t unnamed = all - told_ - kMostNamed;
  std::string sentence =
      fmt::format("{} faulty sample{} left out so far: {}{}", all, all == 1 ? " is" : "s are", named_,
                  unnamed > 0 ? fmt::format("; and {} more", unnamed) : "");
  told_ = all;
  named_.clear();
  return sentence;
}

}  // namespace taxon::data
