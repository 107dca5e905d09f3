#include "train/report/codec_stats.h"

#include "exchange/compression/aggregation.h"

namespace taxon::train {
namespace {

constexpr std::size_t kNumbers = 4;  // of a level

std::string what_travels(const plan::LevelPlan& level) {
  return level.factors == plan::FactorUse::None ? level.codec.candidate() : "sufficient factors";
}

}  // namespace

CodecStats::CodecStats(const std::vector<plan::LevelPlan>& plan, const exchange::Levels* inner,
                       const exchange::Levels* outer) {
  std::size_t at = 0;
  for (const exchange::Levels* levels : {inner, outer})
    for (std::size_t l = 0; levels != nullptr && l < levels->size(); ++l, ++at)
      if (const exchange::CodecWork* work = levels->codec_work(l))
        levels_.push_back({static_cast<int>(at), what_travels(plan[at]), work});
}

void CodecStats::report(StepReport& step) {
  Duration encode{0}, decode{0};
  for (const Level& level : levels_) {
    encode += level.work->encode;
    decode += level.work->decode;
  }
  step.encode = encode - std::exchange(encode_, encode);
  step.decode = decode - std::exchange(decode_, decode);
}

std::size_t CodecStats::numbers() const { return kNumbers * levels_.size(); }

void CodecStats::give(std::vector<double>& numbers) const {
  for (const Level& level : levels_)
    numbers.insert(numbers.end(), {to_seconds(level.work->encode), to_seconds(level.work->decode),
                                   level.work->dense_bytes, level.work->sent_bytes});
}

std::vector<CodecReport> CodecStats::reports_of(std::span<const double> numbers, double shares) const {
  std::vector<CodecReport> reports;
  for (const Level& level : levels_) {
    const std::span<const double> own = numbers.subspan(kNumbers * reports.size(), kNumbers);
    reports.push_back(
        {level.level, level.codec, own[0] / shares, own[1] / shares, own[2] / shares, own[3] / shares});
  }
  return reports;
}

}  // namespace taxon::train
