#include "net/wire/arrivals.h"

#include <algorithm>

namespace taxon::net {

double Arrivals::share(Instant now) {
  const Duration length = now - begin_;
  if (length < kEpoch) return share_;
  if (length <= kLongest) {
    const std::uint64_t most = *std::max_element(bytes_.begin(), bytes_.end());
    std::uint64_t sum = 0;
    int senders = 0;
    for (std::uint64_t bytes : bytes_) {
      if (bytes == 0 || bytes < most / 4) continue;
      sum += bytes;
      ++senders;
    }
    const double share = senders > 1 ? static_cast<double>(sum) / senders / to_seconds(length) : 0;
    share_ = share_ > 0 && share > 0 ? (3 * share_ + share) / 4 : share;
  }
  std::fill(bytes_.begin(), bytes_.end(), 0);
  begin_ = now;
  return share_;
}

}  // namespace taxon::net
