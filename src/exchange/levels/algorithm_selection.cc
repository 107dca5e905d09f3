#include "exchange/levels/algorithm_selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "exchange/compression/coded.h"

namespace taxon::exchange {
namespace {

constexpr std::string_view kNone = "none";
constexpr std::string_view kFactors = "factors";

std::string word(net::Operation collective, std::string_view row) {
  return fmt::format("{} {}", comm::name_of(collective), row);
}

/// One half of one level: which collective it uses, of how many bytes.
struct Half {
  std::size_t level;
  net::Operation collective;
  bool reduces;
};

/// Outward, then back: the order in which a bucket's collectives are recorded. What a codec's wires travel by
/// follows from their sizes.
std::vector<Half> halves(const std::vector<plan::LevelPlan>& levels, const Extensions& own) {
  std::vector<Half> list;
  for (std::size_t l = 0; l < levels.size(); ++l)
    if (net::Operation reduce = find_topology(levels[l].topology, own.topologies).reduce;
        reduce != net::Operation::User && records_reduce(levels[l]))
      list.push_back({l, reduce, true});
  for (std::size_t l = levels.size(); l-- > 0;)
    if (net::Operation spread = find_topology(levels[l].topology, own.topologies).spread;
        spread != net::Operation::User)
      list.push_back({l, spread, false});
  return list;
}

/// Contributions to the first level may come as factors, which no collective sums.
bool sums_factors(const plan::BucketPlan& bucket, const Half& half) {
  return bucket.factors > 0 && half.level == 0 && half.reduces;
}

/// Bytes of a bucket that reach each level, which is what the one before it owns; and last, what a rank owns.
std::vector<std::size_t> bytes_at(std::int64_t bytes, const std::vector<plan::LevelPlan>& levels,
                                  std::span<const LevelShape> shapes, const Extensions& own) {
  std::vector<std::size_t> list;
  auto next = static_cast<std::size_t>(bytes);
  for (std::size_t l = 0; l < levels.size(); ++l) {
    list.push_back(next);
    next = find_topology(levels[l].topology, own.topologies).owned(next, shapes[l].size);
  }
  list.push_back(next);
  return list;
}

/// Those in the first `count` values.
std::vector<codec::Piece> first_pieces(std::span<const codec::Piece> pieces, std::size_t count) {
  std::vector<codec::Piece> first;
  for (codec::Piece piece : pieces)
    if (piece.range.begin < count) {
      piece.range.size = std::min(piece.range.size, count - piece.range.begin);
      first.push_back(piece);
    }
  return first;
}

/// An all-reduce that is named beside a codec sums its wires, which lie in scratch memory that nobody shares,
/// and by messages too the values that the codec leaves as they are. `bytes`: of a bucket.
void require_wires_summed(const plan::LevelPlan& level, const LevelShape& shape, std::size_t bytes,
                          const Extensions& own) {
  const net::Operation reduce = find_topology(level.topology, own.topologies).reduce;
  if (!is_coded(level) || level.collective == "auto" || shape.size == 1 ||
      reduce != net::Operation::AllReduce)
    return;
  if (!comm::find_row(reduce, level.collective, own.collectives).applies({shape.size, bytes, false}))
    throw Error(ErrorKind::Usage,
                fmt::format("the collective {} does not sum the wires of codec {}, which are in no shared "
                            "memory; use auto, or one that sends messages",
                            level.collective, level.codec.name));
}

/// A codec names the values of a bucket by numbers of so many bits. `bytes`: of the bucket.
void require_nameable(const plan::LevelPlan& level, const plan::BucketPlan& bucket, std::size_t bytes,
                      const Extensions& own) {
  if (!is_coded(level)) return;
  const codec::CodecRow& row = codec::find_codec(level.codec.candidate(), own.codecs);
  const std::size_t values =
      bytes / sizeof(float) + bucket.parameters.size() * tensor::ArenaLayout::kAlignment / sizeof(float);
  if (values > row.most)
    throw Error(ErrorKind::Usage,
                fmt::format("codec {} names at most {} values, and {} has about {}; give it an "
                            "exchange.slice_bytes and exchange.bucket_bytes below that, or leave out global",
                            row.name, row.most, plan::describe(bucket), values));
}

}  // namespace

comm::LinkCost nominal_cost(bool shares_memory) {
  // A message over shared memory and its copy; a message over 1 Gbit/s Ethernet. Sums run at a core's memory
  // speed.
  if (shares_memory) return {.latency = 2e-6, .bandwidth = 4e9, .reduce = 1e-10};
  return {.latency = 60e-6, .bandwidth = 119e6, .reduce = 1e-10};
}

const comm::CollectiveRow& choose(net::Operation collective, const std::string& name,
                                  const comm::Shape& shape, std::span<const comm::CollectiveRow> own,
                                  comm::Urgency urgency) {
  if (name == "auto")
    return comm::choose_row(collective, shape, nominal_cost(shape.shares_memory), own, urgency);
  const comm::CollectiveRow& row = comm::find_row(collective, name, own);
  if (!row.applies(shape))
    throw Error(
        ErrorKind::Usage,
        fmt::format("the collective {} does not apply to {} ranks {}; use auto, or one that does", name,
                    shape.size, shape.shares_memory ? "that share memory" : "that do not all share memory"));
  return row;
}

void resolve_exchange(plan::Plan& plan, std::span<const LevelShape> shapes, const Extensions& own) {
  const bool near = std::all_of(shapes.begin(), shapes.end(),
                                [](LevelShape shape) { return shape.size == 1 || shape.shares_memory; });
  const bool backward =
      plan.exchange.overlap == plan::Overlap::Auto ? near : plan.exchange.overlap == plan::Overlap::Backward;
  plan.resolved.overlap = backward ? plan::ResolvedOverlap::Backward : plan::ResolvedOverlap::Forward;
  const auto& levels = plan.exchange.levels;
  const bool by_priority = !backward && plan.exchange.order == plan::BucketOrder::Priority;
  const comm::Urgency urgency = by_priority ? comm::Urgency::Differs : comm::Urgency::Equal;
  for (plan::BucketPlan& bucket : plan.resolved.buckets) {
    std::vector<std::size_t> bytes = bytes_at(bucket.bytes, levels, shapes, own);
    for (std::size_t l = 0; l < levels.size(); ++l) {
      require_wires_summed(levels[l], shapes[l], bytes[l], own);
      require_nameable(levels[l], bucket, bytes[l], own);
    }
    bucket.collectives.clear();
    bucket.reasons.clear();
    for (const Half& half : halves(levels, own)) {
      const LevelShape& shape = shapes[half.level];
      std::string_view row = kNone;
      if (shape.size > 1 && sums_factors(bucket, half))
        row = kFactors;
      else if (shape.size > 1)
        row = choose(half.collective, levels[half.level].collective,
                     {shape.size, bytes[half.level], shape.shares_memory}, own.collectives, urgency)
                  .name;
      bucket.collectives.push_back(word(half.collective, row));
    }
  }
}

std::vector<LevelAlgorithms> rows_of(const plan::BucketPlan& bucket,
                                     const std::vector<plan::LevelPlan>& levels, const Extensions& own) {
  std::vector<LevelAlgorithms> rows(levels.size());
  std::vector<Half> list = halves(levels, own);
  if (bucket.collectives.size() != list.size())
    throw Error(ErrorKind::Mismatch,
                fmt::format("{} has {} recorded collectives, and its levels use {}", plan::describe(bucket),
                            bucket.collectives.size(), list.size()));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string& recorded = bucket.collectives[i];
    const std::string prefix = word(list[i].collective, "");
    if (!recorded.starts_with(prefix))
      throw Error(ErrorKind::Mismatch,
                  fmt::format("{}: the recorded {} is no {}", plan::describe(bucket), recorded, prefix));
    const std::string name = recorded.substr(prefix.size());
    if (name == kNone || (name == kFactors && sums_factors(bucket, list[i]))) continue;
    if (list[i].reduces && is_coded(levels[list[i].level]) && name == levels[list[i].level].codec.of)
      continue;
    LevelAlgorithms& level = rows[list[i].level];
    (list[i].reduces ? level.reduce : level.spread) =
        &comm::find_row(list[i].collective, name, own.collectives);
  }
  return rows;
}

std::size_t place_of_sum(const std::vector<plan::LevelPlan>& levels, std::size_t level,
                         const Extensions& own) {
  const std::vector<Half> list = halves(levels, own);
  const auto found = std::find_if(list.begin(), list.end(),
                                  [level](const Half& half) { return half.level == level && half.reduces; });
  return static_cast<std::size_t>(found - list.begin());
}

std::size_t bytes_owned(const plan::BucketPlan& bucket, const std::vector<plan::LevelPlan>& levels,
                        std::span<const LevelShape> shapes, const Extensions& own) {
  return bytes_at(bucket.bytes, levels, shapes, own).back();
}

double bytes_sent(const plan::BucketPlan& bucket, const std::vector<plan::LevelPlan>& levels,
                  const Setting& setting) {
  const auto& [shapes, pieces, own, spreads] = setting;
  double sent = 0;
  std::vector<std::size_t> bytes = bytes_at(bucket.bytes, levels, shapes, own);
  std::vector<LevelAlgorithms> rows = rows_of(bucket, levels, own);
  for (std::size_t l = 0; l < levels.size(); ++l) {
    double here = 0;
    const comm::Shape shape{shapes[l].size, bytes[l], shapes[l].shares_memory};
    if (rows[l].reduce) here += rows[l].reduce->sent(shape);
    if (rows[l].spread) here += spreads * rows[l].spread->sent(shape);
    if (l == 0 && bucket.factors > 0) here += (shapes[l].size - 1) * static_cast<double>(bucket.factors);
    const auto sent_by = find_topology(levels[l].topology, own.topologies).sent;
    if (is_coded(levels[l]) && !rows[l].reduce && !sent_by) {
      const std::size_t count = bytes[l] / sizeof(float);
      const std::vector<codec::Piece> here_pieces = first_pieces(pieces, count);
      here += coded_bytes_sent(levels[l], {count, here_pieces}, shapes[l].size, own);
    }
    if (sent_by) here += sent_by(levels[l], bytes[l], shapes[l], own);
    sent += here / levels[l].period;
  }
  return sent;
}

}  // namespace taxon::exchange
