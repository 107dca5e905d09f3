#pragma once

#include <string>

namespace taxon::report {

/// What a task's metric is called and how it is shown.
struct ScoreKind {
  std::string name = "accuracy";  // "accuracy", "bits_per_byte"
  enum class Unit { Share, Number } unit = Unit::Share;
  enum class Better { More, Less } better = Better::More;
  friend bool operator==(const ScoreKind&, const ScoreKind&) = default;
};

/// A figure that says how good a model is.
struct Score {
  ScoreKind kind;
  double value = 0;
};

/// "bits per byte".
std::string title_of(const ScoreKind& kind);
/// Without the name: "91.23 %", "2.1034".
std::string text_of(const Score& score);

}  // namespace taxon::report
