#include "train/kept.h"

#include <algorithm>
#include <iterator>

namespace taxon::train {
namespace {

/// As Levels::kept() names them.
constexpr std::string_view kPrefix = "level ";

bool is_kept(const checkpoint::LogicalTensor& tensor) {
  return tensor.name.starts_with(kPrefix) && tensor.type == DType::Float32;
}

}  // namespace

std::vector<checkpoint::LogicalTensor> share_kept(const checkpoint::Checkpoint& from, const plan::Plan& plan,
                                                  int world_size) {
  if (plan.exchange.levels.size() != 1) return {};
  std::vector<checkpoint::LogicalTensor> shares;
  std::vector<std::vector<double>> sums;
  for (const auto& tensors : from.per_rank) {
    std::size_t next = 0;
    for (const auto& tensor : tensors) {
      if (!is_kept(tensor)) continue;
      auto values = as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()));
      if (next == shares.size()) {
        shares.push_back(tensor);
        sums.emplace_back(values.size(), 0.0);
      }
      if (shares[next].name != tensor.name || sums[next].size() != values.size()) return {};
      for (std::size_t i = 0; i < values.size(); ++i) sums[next][i] += values[i];
      ++next;
    }
  }
  for (std::size_t t = 0; t < shares.size(); ++t) {
    auto share = as_span<float>(View(shares[t].bytes.data(), shares[t].bytes.size()));
    for (std::size_t i = 0; i < share.size(); ++i) share[i] = static_cast<float>(sums[t][i] / world_size);
  }
  return shares;
}

task::Task<void> restore_kept(World world, Ranks ranks, const Beginning* beginning, State* state) {
  ranks.levels.prepare(state->gradients(0), state->layout().arena.slots());
  const auto& tensors = beginning->rank_tensors;
  if (std::none_of(tensors.begin(), tensors.end(), is_kept)) co_return;
  auto filling = on_data(&world.runtime, "memory of errors", [&] {
    for (const exchange::Topology::Kept& kept : ranks.levels.kept())
      state->fill(kept.name, tensors, *kept.values);
  });
  co_await filling;
}

std::vector<checkpoint::LogicalTensor> pack_kept(const exchange::Levels& levels, const State& state) {
  std::vector<checkpoint::LogicalTensor> tensors;
  for (const exchange::Topology::Kept& kept : levels.kept()) {
    auto named = state.named(kept.name, *kept.values);
    std::move(named.begin(), named.end(), std::back_inserter(tensors));
  }
  return tensors;
}

}  // namespace taxon::train
