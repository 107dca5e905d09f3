#include "sim/timeline.h"

#include <algorithm>

namespace taxon::sim {
namespace {

/// Forgets the older half; returns the latest end among it.
template <class Entry>
Instant forget_half(std::vector<Entry>& entries) {
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() / 2);
  Instant latest;
  for (auto entry = entries.begin(); entry != middle; ++entry) latest = std::max(latest, entry->end);
  entries.erase(entries.begin(), middle);
  return latest;
}

}  // namespace

std::uint32_t Timeline::name_of(std::string_view text) {
  auto found = std::find(names_.begin(), names_.end(), text);
  if (found == names_.end()) found = names_.insert(names_.end(), std::string(text));
  return static_cast<std::uint32_t>(found - names_.begin());
}

void Timeline::add(const Work& work) {
  if (works_.size() >= most_) complete_from_ = std::max(complete_from_, forget_half(works_));
  works_.push_back(work);
}

std::int64_t Timeline::add(const Service& service) {
  if (services_.size() >= most_) {
    first_service_ += static_cast<std::int64_t>(services_.size() / 2);
    complete_from_ = std::max(complete_from_, forget_half(services_));
  }
  services_.push_back(service);
  return first_service_ + static_cast<std::int64_t>(services_.size()) - 1;
}

void Timeline::arrived(std::int64_t service, Instant when) {
  if (service >= first_service_) services_[static_cast<std::size_t>(service - first_service_)].arrived = when;
}

}  // namespace taxon::sim
