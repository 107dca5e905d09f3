#include "exchange/bucket_scheduler.h"

#include <algorithm>

namespace taxon::exchange {
namespace {

template <class T>
void insert_sorted(std::vector<T>& list, const T& value) {
  list.insert(std::lower_bound(list.begin(), list.end(), value), value);
}

}  // namespace

void BucketScheduler::begin(std::vector<int> keys) {
  TAXON_CHECK(in_flight_.empty(), in_flight_.size(), " buckets are still in flight");
  keys_ = std::move(keys);
  waiting_.clear();
  gates_.clear();
  for (std::size_t i = 0; i < keys_.size(); ++i)
    gates_.push_back(std::make_unique<task::Event>(runtime_.executor(), runtime_.pending()));
}

task::Task<BucketScheduler::Admission> BucketScheduler::enter(int index, std::string subject) {
  insert_sorted(waiting_, priority(index));
  admit();
  auto gate = gates_[static_cast<std::size_t>(index)]->wait("exchange stream", std::move(subject));
  co_await gate;
  co_return Admission(*this, index);
}

void BucketScheduler::admit() {
  while (!waiting_.empty()) {
    Priority first = waiting_.front();
    bool overtakes = in_flight_.empty() || first < in_flight_.front();
    if (!overtakes && in_flight_.size() >= static_cast<std::size_t>(credits_)) return;
    waiting_.erase(waiting_.begin());
    insert_sorted(in_flight_, first);
    gates_[static_cast<std::size_t>(first.second)]->set();
  }
}

void BucketScheduler::leave(int index) {
  std::erase(in_flight_, priority(index));
  // A rank that is being torn down admits nobody: their gates fail with the cancellation.
  if (runtime_.pending().cancelled()) return;
  admit();
}

bool BucketScheduler::runs_ahead(int index) const {
  const Priority own = priority(index);
  return in_flight_.front().first == own.first || in_flight_.front() == own || in_flight_[1] == own;
}

}  // namespace taxon::exchange
