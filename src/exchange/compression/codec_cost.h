#pragma once

#include <string>

#include "exchange/compression/link_probe.h"
#include "exchange/levels/algorithm_selection.h"

namespace taxon::exchange {

/// What an exchange of a range takes in one member, nothing of it hidden behind compute.
struct CodecCase {
  double dense = 0;                         // seconds as it is, by the all-reduce that is chosen
  double encode = 0, decode = 0, wire = 0;  // seconds through the codec
  double coded() const { return encode + decode + wire; }
  bool pays() const { return coded() < dense; }
};

/// The members of a level, what their links reach, and the level.
struct CodecSetting {
  const plan::LevelPlan& level;
  int size = 1;
  comm::LinkCost link;
  const codec::CodecRow& row;
};
/// Pure: the same for the same figures.
CodecCase estimate_codec(const CodecSetting& setting, const codec::Extent& extent, const CodecTime& time);

/// "top_k: 0.52 ms (encode 0.10, decode 0.12, wire 0.30) in place of 34.20 ms", or why it stays dense.
std::string reason(const std::string& codec, const CodecCase& costs);

/// A level with codec auto, among its plan's.
struct CodecLevel {
  const std::vector<plan::LevelPlan>& levels;
  std::size_t level = 0;
  Extensions own = {};
};
/// Of a plan that rank 0 resolves: writes what became of a bucket, and why, where resolve_exchange() wrote an
/// all-reduce.
void record_choice(plan::BucketPlan& bucket, const CodecLevel& place, const CodecCase& costs);
/// The codec serves the bucket, as it did before a resume.
void record_codec(plan::BucketPlan& bucket, const CodecLevel& place);
/// True where the codec of `auto` was recorded for the bucket.
bool chose_codec(const plan::BucketPlan& bucket, const CodecLevel& place);

}  // namespace taxon::exchange
