#include "exchange/divergence.h"

#include <fmt/format.h>

namespace taxon::exchange {

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
