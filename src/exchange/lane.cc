#include "exchange/lane.h"

#include <algorithm>

namespace taxon::exchange {
namespace {

template <class T>
void insert_sorted(std::vector<T>& list, const T& value) {
  list.insert(std::lower_bound(list.begin(), list.end(), value), value);
}

}  // namespace

void Lane::begin(std::vector<int> keys) {
  TAXON_CHECK(in_flight_.empty(), in_flight_.size(), " buckets are still in flight");
  keys_ = std::move(keys);
  waiting_.clear();
  gates_.clear();
  for (std::size_t i = 0; i < keys_.size(); ++i)
    gates_.push_back(std::make_unique<task::Event>(runtime_.executor(), runtime_.waits()));
}

task::Task<Lane::Turn> Lane::enter(int index, std::string subject) {
  insert_sorted(waiting_, place(index));
  admit();
  auto gate = gates_[static_cast<std::size_t>(index)]->wait("exchange lane", std::move(subject));
  co_await gate;
  co_return Turn(*this, index);
}

void Lane::admit() {
  while (!waiting_.empty()) {
    Place first = waiting_.front();
    bool overtakes = in_flight_.empty() || first < in_flight_.front();
    if (!overtakes && in_flight_.size() >= static_cast<std::size_t>(credits_)) return;
    waiting_.erase(waiting_.begin());
    insert_sorted(in_flight_, first);
    gates_[static_cast<std::size_t>(first.second)]->set();
  }
}

void Lane::leave(int index) {
  std::erase(in_flight_, place(index));
  // A rank that is being torn down admits nobody: their gates fail with the cancellation.
  if (!runtime_.waits().cancelled()) admit();
}

}  // namespace taxon::exchange
