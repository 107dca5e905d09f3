#include "report/score.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/progress.h"

namespace taxon::report {

std::string title_of(const ScoreKind& kind) {
  std::string title = kind.name;
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

std::string text_of(const Score& score) {
  return score.kind.unit == ScoreKind::Unit::Share ? fmt::format("{:.2f} %", score.value * 100)
                                                   : decimal(score.value, 4);
}

}  // namespace taxon::report
