#include "exchange/lane.h"

namespace taxon::exchange {

void Lane::begin(int buckets) {
  TAXON_CHECK(in_flight_ == 0, in_flight_, " buckets are still in flight");
  next_ = 0;
  waiting_.assign(static_cast<std::size_t>(buckets), false);
  gates_.clear();
  for (int i = 0; i < buckets; ++i)
    gates_.push_back(std::make_unique<task::Event>(runtime_.executor(), runtime_.waits()));
}

task::Task<Lane::Turn> Lane::enter(int sequence, std::string subject) {
  waiting_[static_cast<std::size_t>(sequence)] = true;
  admit();
  auto gate = gates_[static_cast<std::size_t>(sequence)]->wait("exchange lane", std::move(subject));
  co_await gate;
  co_return Turn(*this);
}

void Lane::admit() {
  while (in_flight_ < credits_ && next_ < static_cast<int>(gates_.size()) &&
         waiting_[static_cast<std::size_t>(next_)]) {
    ++in_flight_;
    gates_[static_cast<std::size_t>(next_++)]->set();
  }
}

void Lane::leave() {
  --in_flight_;
  // A rank that is being torn down admits nobody: their gates fail with the cancellation.
  if (!runtime_.waits().cancelled()) admit();
}

}  // namespace taxon::exchange
