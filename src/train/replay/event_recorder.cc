#include "train/replay/event_recorder.h"

#include <fmt/format.h>

namespace taxon::train {

exchange::EventLog EventRecorder::log() {
  exchange::EventLog log;
  log.record = options_.events ? options_.events : options_.record_order ? &events_ : nullptr;
  if (options_.follow) log.follow = &options_.follow->ranks.at(static_cast<std::size_t>(rank_.value()));
  return log;
}

task::Task<std::optional<ReplayLog>> EventRecorder::gather(const comm::Communicator* group,
                                                           Agreement* agreement, int ranks,
                                                           std::uint64_t parameter_hash) {
  const auto packed = co_await agreement->collect(pack_acts(*log().record));
  if (rank_ != Rank(0)) co_return std::nullopt;
  ReplayLog order{decisive_plan(options_.plan), parameter_hash, {}};
  order.ranks.resize(static_cast<std::size_t>(ranks));
  for (std::size_t member = 0; member < packed.size(); ++member) {
    const Rank from = group->global(static_cast<int>(member));
    order.ranks[static_cast<std::size_t>(from.value())] = unpack_acts(packed[member], from);
  }
  co_return order;
}

std::optional<std::string> EventRecorder::compare(std::uint64_t parameter_hash) const {
  if (!options_.follow || rank_ != Rank(0)) return std::nullopt;
  const std::uint64_t there = options_.follow->parameter_hash;
  if (there == parameter_hash)
    return fmt::format("the parameters are those of the run whose order was followed, bit for bit ({:016x})",
                       there);
  return fmt::format(
      "the order was followed to its end, and yet the parameters are {:016x} in place of "
      "{:016x}: the data, the libraries or the processor's arithmetic are others",
      parameter_hash, there);
}

}  // namespace taxon::train
