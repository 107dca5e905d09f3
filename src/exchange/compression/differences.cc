#include "exchange/compression/differences.h"

#include "comm/in_flight.h"
#include "comm/kernels.h"

namespace taxon::exchange {

task::Task<void> Differences::run(tensor::Kernel kernel) {
  comm::ExchangeKernel work(group_, std::move(kernel));
  co_await work.finished();
}

task::Task<void> Differences::add_agreed(Range range, const tensor::Arena* values, float times) {
  tensor::Kernel kernel{"difference",
                        {2.0 * static_cast<double>(range.size), 3 * range.size * sizeof(float)},
                        [this, range, values, times](tensor::Milestones&) {
                          auto to = values->values<float>(range);
                          auto from = agreed_.values<float>(range);
                          for (std::size_t i = 0; i < to.size(); ++i) to[i] += times * from[i];
                        }};
  return run(std::move(kernel));
}

task::Task<double> Differences::reduce(LevelTransfer transfer, const tensor::Arena& values) {
  co_await add_agreed(transfer.range, &values, -1);
  const double weight = co_await coded_->reduce(transfer, values);
  co_await add_agreed(coded_->owned(transfer.range), &values, static_cast<float>(weight));
  meeting_.insert(transfer.unit);
  co_return weight;
}

task::Task<void> Differences::spread(LevelTransfer transfer, const tensor::Arena& values) {
  co_await coded_->spread(transfer, values);
  // Other values than those of a meeting are spread too, to be shown.
  if (meeting_.erase(transfer.unit) == 0) co_return;
  co_await run(comm::copy_kernel(agreed_.bytes(transfer.range), values.bytes(transfer.range)));
}

void Differences::prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) {
  agreed_ = tensor::Arena(like.type(), like.size(), like.bytes());
  coded_->stateful()->prepare(like, slots);
}

std::vector<StateArena> Differences::state() const {
  std::vector<StateArena> kept = coded_->stateful()->state();
  if (agreed_.size() > 0) kept.push_back({"agreed", &agreed_, true});
  return kept;
}

task::Task<void> Differences::serve(std::vector<Range> units, const tensor::Arena* values, task::Scope*) {
  for (Range unit : units) {
    co_await run(comm::copy_kernel(agreed_.bytes(unit), values->bytes(unit)));
  }
}

}  // namespace taxon::exchange
