#include "sim/timeline.h"

#include <algorithm>

namespace taxon::sim {
namespace {

/// Forgets the oldest eighth of `most`; returns the latest end among it.
template <class Entry>
Instant forget_oldest(std::deque<Entry>& entries, std::size_t most) {
  const auto end = entries.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, most / 8));
  Instant latest;
  for (auto entry = entries.begin(); entry != end; ++entry) latest = std::max(latest, entry->end);
  entries.erase(entries.begin(), end);
  return latest;
}

}  // namespace

std::uint32_t ResourceTimeline::name_of(std::string_view text) {
  auto found = std::find(names_.begin(), names_.end(), text);
  if (found == names_.end()) found = names_.insert(names_.end(), std::string(text));
  return static_cast<std::uint32_t>(found - names_.begin());
}

void ResourceTimeline::add(const Work& work) {
  if (works_.size() >= most_) complete_from_ = std::max(complete_from_, forget_oldest(works_, most_));
  works_.push_back(work);
}

std::int64_t ResourceTimeline::add(const Service& service) {
  if (services_.size() >= most_) {
    const std::size_t before = services_.size();
    complete_from_ = std::max(complete_from_, forget_oldest(services_, most_));
    first_service_ += static_cast<std::int64_t>(before - services_.size());
  }
  services_.push_back(service);
  return first_service_ + static_cast<std::int64_t>(services_.size()) - 1;
}

void ResourceTimeline::arrived(std::int64_t service, Instant when) {
  if (service >= first_service_) services_[static_cast<std::size_t>(service - first_service_)].arrived = when;
}

}  // namespace taxon::sim
