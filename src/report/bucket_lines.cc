#include "report/bucket_lines.h"

#include <fmt/format.h>

#include <map>

#include "base/units.h"
#include "report/markup.h"

namespace taxon::report {
namespace {

constexpr std::size_t kShownBuckets = 3, kShownNames = 2, kLineWidth = 100;

std::string names_of(const plan::BucketPlan& bucket, Detail detail) {
  if (detail == Detail::All || bucket.parameters.size() <= kShownNames + 1) return plan::describe(bucket);
  plan::BucketPlan first = bucket;
  first.parameters.resize(kShownNames);
  return fmt::format("{} and {} more", plan::describe(first), bucket.parameters.size() - kShownNames);
}

/// Where no row of a collective carries a bucket, the levels' codecs say how its values travel.
std::string way_of(const plan::BucketPlan& bucket) {
  return bucket.collectives.empty() ? "its codec" : fmt::format("{}", fmt::join(bucket.collectives, ", "));
}

std::vector<std::string> lines_of(const plan::BucketPlan& bucket, std::size_t number, Detail detail) {
  std::vector<std::string> lines = {fmt::format("bucket {}: {} of {} by {}", number,
                                                format_bytes(static_cast<double>(bucket.bytes)),
                                                names_of(bucket, detail), way_of(bucket))};
  for (const std::string& reason : bucket.reasons)
    lines.push_back(fmt::format("bucket {}: {}", number, reason));
  if (detail == Detail::Screen)
    for (std::string& line : lines) line = shorten(line, kLineWidth);
  return lines;
}

std::string rest_of(const std::vector<plan::BucketPlan>& buckets, std::size_t from) {
  double bytes = 0;
  std::map<std::string, int> ways;
  for (std::size_t b = from; b < buckets.size(); ++b) {
    bytes += static_cast<double>(buckets[b].bytes);
    ++ways[way_of(buckets[b])];
  }
  std::string how;
  for (const auto& [way, count] : ways)
    how += fmt::format("{}{}{}", how.empty() ? "" : "; ", way,
                       ways.size() > 1 ? fmt::format(" ({})", count) : "");
  return shorten(
             fmt::format("and {} more buckets: {} by {}", buckets.size() - from, format_bytes(bytes), how),
             kLineWidth - 20) +
         " (--verbose: all)";
}

}  // namespace

std::vector<std::string> bucket_lines(const plan::ResolvedPlan& resolved, Detail detail) {
  const std::vector<plan::BucketPlan>& buckets = resolved.buckets;
  std::vector<std::string> lines;
  if (resolved.world_size < 2) return lines;
  const bool all = detail == Detail::All || buckets.size() <= kShownBuckets + 1;
  const std::size_t shown = all ? buckets.size() : kShownBuckets;
  for (std::size_t b = 0; b < shown; ++b)
    for (std::string& line : lines_of(buckets[b], b, detail)) lines.push_back(std::move(line));
  if (shown < buckets.size()) lines.push_back(rest_of(buckets, shown));
  return lines;
}

}  // namespace taxon::report
