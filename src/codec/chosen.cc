#include "codec/chosen.h"

#include <algorithm>
#include <cmath>

#include "base/view.h"
#include "codec/codec.h"
#include "codec/wire.h"
#include "plan/legality.h"

namespace taxon::codec {

std::size_t entries_of(std::size_t count, double density) {
  const auto wanted = static_cast<std::size_t>(std::llround(density * static_cast<double>(count)));
  return std::clamp<std::size_t>(wanted, std::min<std::size_t>(1, count), count);
}

std::size_t stratified(Draws of, std::size_t i, std::uint64_t key) {
  const Range stratum = part({0, of.count}, of.draws, i);
  const auto chance = static_cast<unsigned __int128>(mix(key + i));
  return stratum.begin + static_cast<std::size_t>(chance * stratum.size >> 64);
}

plan::Violation entries_of_whole_ranges(const plan::LegalityInput& input, const plan::LevelPlan& level) {
  return plan::unless(level.codec.options.read<ChosenOptions>().entries == 0 ||
                          input.known.sum_at(level) == plan::SumAt::Everyone,
                      "topology is " + level.topology);
}

}  // namespace taxon::codec
