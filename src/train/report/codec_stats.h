#pragma once

#include <vector>

#include "exchange/levels/levels.h"
#include "train/observer.h"

namespace taxon::train {

/// What this rank's codecs do, step by step and in all.
class CodecStats {
 public:
  /// `inner` and `outer` are the levels of a plan in its order, and outlive this; either may be null.
  CodecStats(const std::vector<plan::LevelPlan>& plan, const exchange::Levels* inner,
             const exchange::Levels* outer);

  /// Says what was done since the last step.
  void report(StepReport& step);
  /// Four numbers for each level with a codec, to be summed over ranks; reports_of() makes reports of the
  /// sum.
  void give(std::vector<double>& numbers) const;
  /// `numbers` are those of all ranks; `shares`: ranks times steps.
  std::vector<CodecReport> reports_of(std::span<const double> numbers, double shares) const;
  /// How many numbers give() adds.
  std::size_t numbers() const;

 private:
  struct Level {
    int level;
    std::string codec;
    const exchange::CodecWork* work;
  };
  std::vector<Level> levels_;
  Duration encode_{0}, decode_{0};  // until the last step
};

}  // namespace taxon::train
