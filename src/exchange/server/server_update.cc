#include "exchange/server/server_update.h"

#include <cstring>

#include "comm/sum.h"
#include "exchange/kernels.h"

namespace taxon::exchange {

ServerUpdate::ServerUpdate(comm::Communicator& group, const tensor::Arena& weights,
                           std::unique_ptr<ServerState> owner, std::unique_ptr<ServerCoders> coders)
    : group_(group),
      weights_(weights),
      owner_(std::move(owner)),
      codecs_(group, std::move(coders), *owner_) {}

void ServerUpdate::prepare(std::vector<OwnedPart*> parts, const std::vector<std::size_t>& wholes,
                           const std::vector<tensor::Slot>& slots, int workers, const LateRule& late) {
  std::size_t owned = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    parts[p]->state = owned;
    owned += parts[p]->range.size;
    codecs_.prepare(parts[p], wholes[p], slots, weights_);
  }
  if (late) late_ = late(owned);
  codecs_.prepare(owned, workers, weights_);
  workers_ = workers;
}

std::vector<std::pair<std::string, tensor::Arena*>> ServerUpdate::state() {
  std::vector<std::pair<std::string, tensor::Arena*>> state;
  if (late_) state = late_->state();
  for (auto& given : codecs_.state()) state.push_back(std::move(given));
  return state;
}

task::Task<void> ServerUpdate::begin(const OwnedPart* part) {
  auto filled =
      run_kernel(group_.runtime(), "owner's weights", part->id(),
                 {0, 2 * part->range.size * size_of(weights_.type())}, [this, part](tensor::Milestones&) {
                   owner_->begin(weights_, part->range);
                   for (int worker = 0; late_ && worker < workers_; ++worker)
                     late_->served(worker, weights_, {part->range, 0, part->state});
                   codecs_.begin(*part, weights_);
                 });
  co_await filled;
}

task::Task<Buffer> ServerUpdate::sum(OwnedPart* part, std::vector<PooledContribution>* pool) {
  Buffer sum;
  if (part->asks) {
    sum = part->values.take();
    std::vector<View> wires;
    std::vector<Channel*> workers;
    for (const PooledContribution& pooled : *pool) {
      wires.push_back(pooled.contribution.values->bytes());
      workers.push_back(pooled.worker);
    }
    const std::int64_t round = pool->front().contribution.at(ServerWire::Round);
    co_await codecs_.query(part, round, std::move(wires), std::move(workers), sum->bytes());
    co_return sum;
  }
  const DType type = weights_.type();
  const optim::UpdateRange all{part->range, 0, part->state};
  for (Range piece : kernel_pieces({0, part->range.size})) {
    const std::size_t touched = pool->size() * (late_ ? 4 : 1) + 1;
    auto summed =
        run_kernel(group_.runtime(), "server sum", part->id(),
                   {static_cast<double>(piece.size * pool->size()) * (late_ ? 5 : 1),
                    touched * piece.size * size_of(type)},
                   [this, place = all.of({part->range.begin + piece.begin, piece.size}), pool, piece,
                    type](tensor::Milestones&) {
                     std::vector<ConstView> sources;
                     for (const PooledContribution& pooled : *pool) {
                       const tensor::Arena& values = *pooled.contribution.values;
                       // So that it counts as what it would be if it were not late.
                       if (late_) late_->correct(values, owner_->values(), place, pooled.lateness);
                       sources.emplace_back(values.bytes(piece));
                     }
                     if (sources.size() > 1)
                       comm::sum_into(type, pool->front().contribution.values->bytes(piece), sources);
                   });
    co_await summed;
  }
  sum = std::move(pool->front().contribution.values);
  co_return sum;
}

task::Task<void> ServerUpdate::apply(const OwnedPart* part, const tensor::Arena* sum, PendingUpdate update) {
  auto updated = run_kernel(
      group_.runtime(), "server update", part->id(),
      {4.0 * static_cast<double>(part->range.size), 5 * part->range.size * size_of(weights_.type())},
      [this, part, sum, &update](tensor::Milestones&) { owner_->update(*sum, part->range, update); });
  co_await updated;
}

task::Task<Buffer> ServerUpdate::answer(OwnedPart* part, int worker, std::int64_t version,
                                        const tensor::Arena* sum, View place) {
  Buffer answer;
  if (part->answer_wire) {
    answer = part->answer_wires.take();
    auto coding = part->asks ? codecs_.answer_chosen(part, answer->bytes())
                             : codecs_.answer_difference(part, worker, version, answer->bytes());
    co_await coding;
    co_return answer;
  }
  if (place.empty())
    answer = part->values.take();
  else
    answer.reset(new tensor::Arena(tensor::Arena::over(weights_.type(), place)));
  const tensor::Arena* values = sum ? sum : &owner_->values();
  const Range from{sum ? 0 : part->range.begin, part->range.size};
  auto copied = run_kernel(group_.runtime(), "answer", part->id(), {0, 2 * answer->bytes().size()},
                           [this, part, worker, values, from, into = answer->bytes()](tensor::Milestones&) {
                             const ConstView given = values->bytes(from);
                             if (given.size() > 0) std::memcpy(into.data(), given.data(), given.size());
                             if (late_) late_->served(worker, *values, {from, 0, part->state});
                           });
  co_await copied;
  co_return answer;
}

}  // namespace taxon::exchange
