#include "exchange/compression/codec_cost.h"

#include <fmt/format.h>

#include "base/units.h"
#include "exchange/compression/aggregation.h"
#include "exchange/compression/coded.h"

namespace taxon::exchange {
namespace {

std::string recorded(const plan::CodecPlan& codec) {
  return fmt::format("{} {}", comm::name_of(net::Operation::AllReduce), codec.of);
}

}  // namespace

CodecCase estimate_codec(const CodecSetting& setting, const codec::Extent& extent, const CodecTime& time) {
  const auto codec = setting.row.make(setting.level.codec.options);
  const AggregationRow& travel = aggregation_of(*codec);
  const CodecShare share = travel.share(setting.size);
  const std::size_t bytes = extent.count * sizeof(float);
  CodecCase costs;
  costs.dense = row_for(net::Operation::AllReduce, setting.size, bytes)
                    .estimate({setting.size, bytes, false}, setting.link);
  costs.encode = share.encodes * time.encode;
  costs.decode = share.decodes * time.decode;
  for (int turn = 0; turn < codec->cycle(); ++turn)
    costs.wire += travel.seconds(codec->in_turn(turn), extent, {setting.size, setting.link}) / codec->cycle();
  return costs;
}

std::string reason(const std::string& codec, const CodecCase& costs) {
  const std::string parts =
      fmt::format("{} (encode {}, decode {}, wire {})", format_seconds(costs.coded()),
                  format_seconds(costs.encode), format_seconds(costs.decode), format_seconds(costs.wire));
  return costs.pays() ? fmt::format("{}: {} in place of {}", codec, parts, format_seconds(costs.dense))
                      : fmt::format("dense: {}; {} would take {}", format_seconds(costs.dense), codec, parts);
}

void record_choice(plan::BucketPlan& bucket, const CodecLevel& place, const CodecCase& costs) {
  bucket.reasons.push_back(reason(place.levels[place.level].codec.of, costs));
  if (costs.pays()) record_codec(bucket, place);
}

void record_codec(plan::BucketPlan& bucket, const CodecLevel& place) {
  bucket.collectives.at(place_of_sum(place.levels, place.level, place.own)) =
      recorded(place.levels[place.level].codec);
}

bool chose_codec(const plan::BucketPlan& bucket, const CodecLevel& place) {
  const std::size_t at = place_of_sum(place.levels, place.level, place.own);
  return at < bucket.collectives.size() &&
         bucket.collectives[at] == recorded(place.levels[place.level].codec);
}

}  // namespace taxon::exchange
