#include "train/state/redistribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace taxon::train {
namespace {

/// As Levels::state() names them.
constexpr std::string_view kPrefix = "level ";

bool is_kept(const checkpoint::LogicalTensor& tensor) {
  return tensor.name.starts_with(kPrefix) && tensor.type == DType::Float32;
}

/// What of the ranks' memories goes on with other ranks, and what stays of it: gradients count in a sum, how
/// far replicas went in a mean. What all agreed on begins anew with the weights.
struct SharedRow {
  std::string_view prefix;
  enum class Stays { Sum, Mean } stays;
};
constexpr SharedRow kShared[] = {
    {"level 0 sum of estimates/", SharedRow::Stays::Mean},  // all ranks have it alike
    {"level 0 factors ", SharedRow::Stays::Mean},           // this, too (Codec::lasts())
    {"level 0 ", SharedRow::Stays::Sum},
    {"meets level 0 errors/", SharedRow::Stays::Mean},
};

const SharedRow* find_shared(const checkpoint::LogicalTensor& tensor) {
  for (const SharedRow& row : kShared)
    if (tensor.name.starts_with(row.prefix) && tensor.type == DType::Float32) return &row;
  return nullptr;
}

}  // namespace

std::vector<checkpoint::LogicalTensor> share_kept(const checkpoint::Checkpoint& from, const plan::Plan& plan,
                                                  int world_size) {
  if (plan.exchange.levels.size() != 1) return {};
  std::vector<checkpoint::LogicalTensor> shares;
  std::vector<std::vector<double>> sums;
  int members = 0;  // that kept something
  for (const auto& tensors : from.per_rank) {
    std::size_t next = 0;
    for (const auto& tensor : tensors) {
      if (!find_shared(tensor)) continue;
      auto values = as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()));
      if (next == shares.size()) {
        shares.push_back(tensor);
        sums.emplace_back(values.size(), 0.0);
      }
      if (shares[next].name != tensor.name || sums[next].size() != values.size()) return {};
      for (std::size_t i = 0; i < values.size(); ++i) sums[next][i] += values[i];
      ++next;
    }
    members += next > 0;
  }
  for (std::size_t t = 0; t < shares.size(); ++t) {
    const bool sum = find_shared(shares[t])->stays == SharedRow::Stays::Sum;
    const int parts = sum ? plan::workers(plan, world_size) : members;
    auto share = as_span<float>(View(shares[t].bytes.data(), shares[t].bytes.size()));
    for (std::size_t i = 0; i < share.size(); ++i) share[i] = static_cast<float>(sums[t][i] / parts);
  }
  return shares;
}

task::Task<void> restore_kept(TrainContext world, RankGroups ranks, const RunStart* run_start, State* state) {
  ranks.levels.prepare(state->gradients(0), state->layout().arena.slots());
  const auto& tensors = run_start->rank_tensors;
  if (std::none_of(tensors.begin(), tensors.end(), is_kept)) co_return;
  std::string missing;  // of another codec than the checkpoint's
  auto filling = on_data(&world.runtime, "memory of errors", [&] {
    for (const exchange::StateArena& kept : ranks.levels.state())
      if (state->holds(kept.name, tensors, *kept.values))
        state->fill(kept.name, tensors, *kept.values);
      else
        missing += (missing.empty() ? "" : ", ") + kept.name;
  });
  co_await filling;
  if (!missing.empty() && ranks.group.rank() == 0)
    world.observer.noticed(fmt::format(
        "the checkpoint, of other codecs, has no {} of this size: it starts as in a fresh run", missing));
}

std::vector<checkpoint::LogicalTensor> pack_kept(const exchange::Levels& levels, const State& state) {
  std::vector<checkpoint::LogicalTensor> tensors;
  for (const exchange::StateArena& kept : levels.state()) {
    auto named = state.named(kept.name, *kept.values);
    std::move(named.begin(), named.end(), std::back_inserter(tensors));
  }
  return tensors;
}

}  // namespace taxon::train
