#include "exchange/divergence.h"

#include <fmt/format.h>

#include "base/check.h"

namespace taxon::exchange {

OnDivergence on_divergence(const plan::Plan& plan) {
  struct Row {
    std::string_view name;
    OnDivergence value;
  };
  static constexpr Row kRows[] = {
      {"stop", OnDivergence::Stop}, {"skip", OnDivergence::Skip}, {"ignore", OnDivergence::Ignore}};
  for (const Row& row : kRows)
    if (row.name == plan.on_divergence) return row.value;
  TAXON_CHECK(false, "on_divergence is ", plan.on_divergence);
}

Error diverged(std::int64_t step, const std::string& what, ErrorContext context) {
  return {
      ErrorKind::Diverged,
      fmt::format(
          "step {}: {} is not finite; lower learning_rate.base, clip gradients with optimiser.clip_norm, or "
          "see on_divergence",
          step, what),
      std::move(context)};
}

}  // namespace taxon::exchange
