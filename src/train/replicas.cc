#include "train/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exchange/cast.h"

namespace taxon::train {
namespace {

constexpr const char* kWeights = "replica";
constexpr const char* kAnswers = "answers";

/// A packed arena of what this rank owns has no names inside.
checkpoint::LogicalTensor flat(const std::string& name, const tensor::Arena& arena) {
  View bytes = arena.bytes();
  return {name, arena.type(), {static_cast<std::int64_t>(arena.size())}, {bytes.data(), bytes.data() + bytes.size()}};
}

void fill_flat(const std::vector<checkpoint::LogicalTensor>& tensors, const std::string& name,
               const tensor::Arena& arena) {
  for (const auto& tensor : tensors)
    if (tensor.name == name && tensor.bytes.size() == arena.bytes().size()) {
      if (!tensor.bytes.empty()) std::memcpy(arena.bytes().data(), tensor.bytes.data(), tensor.bytes.size());
      return;
    }
  throw Error(ErrorKind::Checkpoint,
              fmt::format("the checkpoint has no {} of this size for this rank: it was written with another "
                          "exchange.levels or precision; resume with those",
                          name));
}

}  // namespace

Replicas::Replicas(comm::Runtime& runtime, Ranks ranks, State* state, const plan::Plan* plan)
    : runtime_(runtime), ranks_(ranks), state_(state) {
  if (!ranks.outer) return;
  const exchange::Arenas arenas = state->arenas(0);
  meeting_ = std::make_unique<exchange::Meeting>(
      runtime, exchange::Meeting::Setup{&state->layout(), &plan->exchange.levels.back(),
                                        plan->exchange.levels.size() - 1, &ranks.levels, ranks.outer,
                                        &state->rule(), arenas.master, arenas.compute, &state->handed_in()});
}

task::Task<void> Replicas::begin(const Beginning* beginning) {
  if (!apart()) co_return;
  auto anchoring = meeting_->begin();
  co_await anchoring;
  if (beginning->rank_tensors.empty()) co_return;
  auto filling = on_data(&runtime_, "replica", [&] { fill(beginning->rank_tensors); });
  co_await filling;
  meeting_->resume(beginning->steps);
}

void Replicas::fill(const std::vector<checkpoint::LogicalTensor>& tensors) {
  state_->fill(kWeights, tensors, state_->master());
  for (const auto& [name, arena] : state_->rule().state()) fill_flat(tensors, name, *arena);
  for (const auto& [name, arena] : meeting_->rule().state()) fill_flat(tensors, name, *arena);
  state_->fill(kAnswers, tensors, state_->handed_in());
  const exchange::Arenas arenas = state_->arenas(0);
  if (arenas.compute != arenas.master)
    exchange::cast_range(*arenas.master, *arenas.compute, {0, arenas.master->size()});
}

std::vector<checkpoint::LogicalTensor> Replicas::tensors() const {
  auto tensors = state_->named(kWeights, state_->master());
  for (const auto& [name, arena] : state_->rule().state()) tensors.push_back(flat(name, *arena));
  for (const auto& [name, arena] : meeting_->rule().state()) tensors.push_back(flat(name, *arena));
  auto answers = state_->named(kAnswers, state_->handed_in());
  tensors.insert(tensors.end(), answers.begin(), answers.end());
  return tensors;
}

task::Task<void> Replicas::show() {
  if (!apart()) co_return;
  const tensor::Arena& master = state_->master();
  if (other_.size() == 0) other_ = tensor::Arena(master.type(), master.size(), master.bytes());
  auto arriving = meeting_->arrive();  // so that nothing else is on its way
  co_await arriving;
  const std::uint64_t before = runtime_.transport.traffic().bytes_sent;
  auto showing = meeting_->show(ranks_.group, other_);
  co_await showing;
  bytes_shown_ += runtime_.transport.traffic().bytes_sent - before;
  auto swapping = swap();
  co_await swapping;
}

task::Task<void> Replicas::hide() {
  if (!apart()) co_return;
  auto swapping = swap();
  co_await swapping;
}

task::Task<void> Replicas::swap() {
  const exchange::Arenas arenas = state_->arenas(0);
  auto body = [this, arenas] {
    View shown = arenas.master->bytes(), other = other_.bytes();
    std::swap_ranges(shown.data(), shown.data() + shown.size(), other.data());
    if (arenas.compute != arenas.master)
      exchange::cast_range(*arenas.master, *arenas.compute, {0, arenas.master->size()});
  };
  auto swapping = on_compute(&runtime_, "show", body, {0, 3 * arenas.master->bytes().size()});
  co_await swapping;
}

}  // namespace taxon::train
