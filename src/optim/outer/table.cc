#include <algorithm>

#include "base/error.h"
#include "optim/outer/rows.h"

namespace taxon::optim {

void OuterRule::adopt(const tensor::Arena& replica, const tensor::Arena& sum, UpdateRange place) {
  for_master(replica, [&](auto zero) {
    using T = decltype(zero);
    auto from = sum.values<T>({place.sum, place.weights.size});
    std::copy(from.begin(), from.end(), replica.values<T>(place.weights).begin());
  });
}

std::span<const OuterRow> outer_table() {
  static constexpr OuterRow kRules[] = {
      {"average", "the mean of the replicas", make_average, 0},
      {"block", "block momentum (BMUF): rate zeta, momentum eta", make_block, 2},
      {"block_nesterov", "block momentum that looks ahead", make_block_nesterov, 2},
      {"outer_momentum", "SGD with momentum over the rounds", make_outer_momentum, 2},
      {"outer_nesterov", "SGD with Nesterov momentum over the rounds (DiLoCo)", make_outer_nesterov, 2},
      {"slowmo", "slow momentum: rate alpha, momentum beta", make_slowmo, 2},
      {"elastic", "elastic averaging with a centre (EASGD): rate beta", make_elastic, 1},
      {"accumulated", "a period's way counts as one step (ADAG): rate", make_accumulated, 1},
  };
  return kRules;
}

const OuterRow& find_outer(std::string_view name, std::span<const OuterRow> own) {
  for (std::span<const OuterRow> rows : {own, outer_table()})
    for (const OuterRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no outer rule is called " + std::string(name));
}

}  // namespace taxon::optim
