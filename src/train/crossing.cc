#include "train/crossing.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "comm/all_to_all.h"
#include "comm/collectives.h"
#include "comm/kernels.h"
#include "train/units.h"

namespace taxon::train {
namespace {

using parallel::Movement;

/// The elements of consecutive samples.
Range elements_of(Range samples, std::size_t each) { return {samples.begin * each, samples.size * each}; }

struct MovementRow {  // of each that members make by a collective, in the order of the enum
  std::optional<net::Operation> collective;
  bool gathers = false, parts = false;
};
constexpr MovementRow kRows[] = {{},
                                 {.parts = true},
                                 {net::Operation::AllGather, true},
                                 {net::Operation::AllReduce},
                                 {net::Operation::ReduceScatter, false, true}};

}  // namespace

Crossing onward(const std::vector<model::Piece>& pieces, int index, std::size_t samples) {
  const auto at = static_cast<std::size_t>(index);
  const model::Piece& here = pieces[at];
  const bool is_last = here.forward == Movement::None;
  return {.movement = here.forward,
          .from_samples = here.by_samples,
          .to_samples = is_last ? here.by_samples : pieces[at + 1].by_samples,
          .samples = samples,
          .elements = static_cast<std::size_t>(here.outputs),
          .unit = kPieceUnit + static_cast<std::uint32_t>(index)};
}

Crossing back(const std::vector<model::Piece>& pieces, int index, std::size_t samples) {
  const auto at = static_cast<std::size_t>(index);
  const model::Piece& here = pieces[at];
  const bool is_first = at == 0 || pieces[at - 1].stage != here.stage;
  return {.movement = is_first ? Movement::None : pieces[at - 1].backward,
          .from_samples = here.by_samples,
          .to_samples = is_first ? here.by_samples : pieces[at - 1].by_samples,
          .samples = samples,
          .elements = static_cast<std::size_t>(here.inputs),
          .unit = kPieceUnit + static_cast<std::uint32_t>(index)};
}

double bytes_sent(const Crossing& crossing, int members, DType type) {
  if (members == 1) return 0;
  const auto size = static_cast<std::size_t>(members);
  const std::size_t all = crossing.samples * crossing.elements * size_of(type);
  if (crossing.movement == Movement::AllToAll)
    return static_cast<double>(all) * (members - 1) / members / (crossing.from_samples ? members : 1);
  const MovementRow& row = kRows[static_cast<std::size_t>(crossing.movement)];
  if (!row.collective) return 0;
  const std::size_t places = size * part({0, crossing.samples}, size, 0).size;  // of equally many samples
  const std::size_t bytes = crossing.moves_samples() ? places * crossing.elements * size_of(type)
                            : row.gathers            ? all * size
                                                     : all;
  return comm::find_row(*row.collective, "ring").sent({members, bytes, false});
}

Range Crossings::samples_of(const Crossing& crossing, std::size_t member) const {
  return part({0, crossing.samples}, size(), member);
}

std::size_t Crossings::stride(const Crossing& crossing) const {
  return samples_of(crossing, 0).size * crossing.elements;
}

Payload Crossings::room(const Crossing& crossing) {
  if (crossing.samples * crossing.elements == 0) return {};
  const std::size_t samples = crossing.from_samples ? samples_of(crossing, member()).size : crossing.samples;
  const std::size_t own = samples * crossing.elements;
  const bool gathers = crossing.movement == Movement::AllGather;
  const bool reduces = crossing.movement == Movement::ReduceScatter;
  if (crossing.moves_samples() && (gathers || reduces)) {
    const std::size_t place = stride(crossing);
    return {pool_.lend(size() * place), {gathers ? member() * place : 0, own}};
  }
  if (gathers) return {pool_.lend(size() * own), {member() * own, own}};
  return {pool_.lend(std::max(own, std::size_t{1})), {0, own}};
}

task::Task<void> Crossings::carry(Crossing crossing, Payload* values) {
  if (size() == 1 || !*values) co_return;
  if (crossing.movement == Movement::AllToAll) {
    auto exchanging = exchange_all(crossing, values);
    co_await exchanging;
    co_return;
  }
  const MovementRow& row = kRows[static_cast<std::size_t>(crossing.movement)];
  const bool of_samples = crossing.moves_samples();
  const bool apart = of_samples && row.collective && crossing.samples % size() != 0;
  const Range whole = of_samples ? Range{0, crossing.samples * crossing.elements}
                                 : Range{0, values->range.size * (row.gathers ? size() : 1)};
  if (row.collective) {
    if (apart && row.parts) {
      auto placing = place(crossing, true, values->memory.get());
      co_await placing;
    }
    values->range = apart ? Range{0, size() * stride(crossing)} : whole;
    const comm::Call call{values->view(), pool_.type(), crossing.unit};
    const comm::CollectiveRow& ring = comm::find_row(*row.collective, "ring");
    co_await ring.run(members_, call);
    if (apart && row.gathers) {
      auto placing = place(crossing, false, values->memory.get());
      co_await placing;
    }
  }
  values->range = whole;
  if (!row.parts) co_return;
  if (of_samples) {
    values->range = elements_of(samples_of(crossing, member()), crossing.elements);
    if (apart) values->range.begin = member() * stride(crossing);
  } else {
    values->range = part(whole, size(), member());
  }
}

task::Task<void> Crossings::place(Crossing crossing, bool apart, tensor::Arena* memory) {
  tensor::Kernel kernel;
  kernel.name = "place samples";
  kernel.cost.bytes = 2 * size() * stride(crossing) * size_of(pool_.type());
  kernel.body = [this, crossing, apart, memory](tensor::Milestones&) {
    const auto move = [&](std::size_t member) {
      const Range samples = elements_of(samples_of(crossing, member), crossing.elements);
      const Range place{member * stride(crossing), samples.size};
      const ConstView from = memory->bytes(apart ? samples : place);
      std::memmove(memory->bytes(apart ? place : samples).data(), from.data(), from.size());
      if (!apart) return;
      const View rest = memory->bytes({place.end(), stride(crossing) - place.size});
      std::fill_n(rest.data(), rest.size(), std::byte{0});
    };
    // Places lie behind the samples: those move apart from the last on.
    for (std::size_t m = 0; m < size(); ++m) move(apart ? size() - 1 - m : m);
  };
  comm::ExchangeKernel moving(members_, std::move(kernel));
  if (!moving.done()) {
    co_await moving.finished();
  }
}

/// From a member's samples with all features to its features of all samples, or back. Of the side with the
/// samples alone one member's features lie after the other's.
task::Task<void> Crossings::exchange_all(Crossing crossing, Payload* values) {
  const std::size_t each = crossing.from_samples ? crossing.elements / size() : crossing.elements;
  const std::size_t own = samples_of(crossing, member()).size;
  const std::size_t taken = (crossing.from_samples ? crossing.samples : own * size()) * each;
  const Payload to{pool_.lend(std::max(taken, std::size_t{1})), {0, taken}};
  comm::AllToAll call{.type = pool_.type(), .unit = crossing.unit};
  for (std::size_t m = 0; m < size(); ++m) {
    const Range by_samples = elements_of(samples_of(crossing, m), each);
    const Range by_features{m * own * each, own * each};
    const std::size_t begin = values->range.begin;
    Range leaves = crossing.from_samples ? by_features : by_samples;
    leaves.begin += begin;
    call.outgoing.push_back(values->memory->bytes(leaves));
    call.incoming.push_back(to.memory->bytes(crossing.from_samples ? by_samples : by_features));
  }
  auto exchanging = comm::all_to_all(members_, std::move(call));
  co_await exchanging;
  *values = to;
}

}  // namespace taxon::train
