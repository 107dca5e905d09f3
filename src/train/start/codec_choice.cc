#include "train/start/codec_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "comm/told.h"
#include "exchange/compression/codec_cost.h"
#include "exchange/compression/coded.h"
#include "train/bytes.h"

namespace taxon::train {
namespace {

using exchange::CodecCase;

/// Where everybody gets the sum by a collective, whose place the codec may take.
bool weighs(const plan::LevelPlan& level, int size, const exchange::Extensions& own) {
  const exchange::TopologyRow& topology = exchange::find_topology(level.topology, own.topologies);
  return exchange::is_coded(level) && topology.sum == plan::SumAt::Everyone &&
         topology.reduce == net::Operation::AllReduce && level.rule == "sum" && size > 1;
}

bool is_auto(const plan::LevelPlan& level) { return level.codec.name == "auto"; }

/// One level with a codec, at rank 0.
class LevelChoice {
 public:
  LevelChoice(TrainContext world, RankGroups ranks, const CodecChoice& choice, std::size_t level,
              plan::Plan& plan)
      : world_(world),
        ranks_(ranks),
        choice_(choice),
        place_{plan.exchange.levels, level, *choice.own},
        plan_(plan.exchange.levels[level]),
        row_(codec::find_codec(plan_.codec.candidate(), choice.own->codecs)),
        buckets_(plan.resolved.buckets),
        layout_(exchange::lay_out(trainable(world.model.spec()), buckets_, plan.precision.master)) {}

  task::Task<void> choose() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (is_auto(plan_) && b < choice_.before->size()) {
        keep(buckets_[b], (*choice_.before)[b]);
        continue;
      }
      co_await weigh(b);
    }
    tell();
  }

 private:
  void keep(plan::BucketPlan& bucket, const plan::BucketPlan& before) {
    bucket.reasons = before.reasons;
    if (!exchange::chose_codec(before, place_)) return;
    exchange::record_codec(bucket, place_);
    ++served_;
  }

  task::Task<void> weigh(std::size_t b) {
    const Range range = ranks_.levels.reaching(place_.level, layout_.buckets[b].range);
    if (static_cast<std::int64_t>(range.size) < plan_.codec.dense_below || range.size == 0) {
      if (is_auto(plan_)) buckets_[b].reasons.emplace_back("dense: fewer values than dense_below");
      co_return;
    }
    const std::vector<codec::Piece> pieces = exchange::pieces_of(layout_.arena.slots(), range);
    const codec::Extent extent{range.size, pieces};
    comm::Communicator* group = &ranks_.levels.group(place_.level);
    const exchange::CodecTime time = co_await exchange::probe_codec(group, &plan_.codec, extent, &row_);
    const CodecCase costs = exchange::estimate_codec({plan_, group->size(), link(), row_}, extent, time);
    if (is_auto(plan_)) exchange::record_choice(buckets_[b], place_, costs);
    served_ += costs.pays() ? 1 : 0;
    all_.dense += costs.dense;
    all_.encode += costs.encode;
    all_.decode += costs.decode;
    all_.wire += costs.wire;
  }

  void tell() {
    const std::string links = fmt::format("level {}: links of {}/s and {}", place_.level,
                                          format_bytes(link().bandwidth), format_seconds(link().latency));
    if (is_auto(plan_))
      world_.observer.noticed(
          fmt::format("{}: {} serves {} of {} buckets", links, plan_.codec.of, served_, buckets_.size()));
    else if (!all_.pays() && all_.dense > 0)
      world_.observer.noticed(fmt::format(
          "{}: codec {} costs more than it saves: a step's exchange takes {} (encode {}, decode {}, wire {}) "
          "in "
          "place of {} for gradients as they are; take codec none, or auto, which decides by bucket",
          links, plan_.codec.name, format_seconds(all_.coded()), format_seconds(all_.encode),
          format_seconds(all_.decode), format_seconds(all_.wire), format_seconds(all_.dense)));
  }

  const comm::LinkCost& link() const { return *(*choice_.links)[place_.level]; }

  TrainContext world_;
  RankGroups ranks_;
  const CodecChoice& choice_;
  const exchange::CodecLevel place_;
  const plan::LevelPlan& plan_;
  const codec::CodecRow& row_;
  std::vector<plan::BucketPlan>& buckets_;
  const exchange::Layout layout_;
  CodecCase all_;
  std::size_t served_ = 0;
};

}  // namespace

task::Task<LevelLinks> probe_levels(RankGroups ranks, const plan::Plan* plan,
                                    const exchange::Extensions* own) {
  LevelLinks links(plan->exchange.levels.size());
  Packer packer;
  for (std::size_t l = 0; l < ranks.levels.size(); ++l) {
    comm::Communicator* group = &ranks.levels.group(l);
    if (!weighs(plan->exchange.levels[l], group->size(), *own)) continue;
    const comm::LinkCost own = co_await exchange::probe_link(group);
    links[l] = own;
    for (double figure : {own.latency, own.bandwidth, own.reduce}) packer.real(figure);
  }
  if (std::none_of(links.begin(), links.end(), [](const auto& link) { return link.has_value(); }))
    co_return links;
  const auto answers = co_await ranks.data_agreement.gather(packer.take());
  for (std::size_t m = 0; m < answers.size(); ++m) {
    const Rank from = ranks.data.global(static_cast<int>(m));
    Unpacker unpacker(answers[m], from);
    for (auto& link : links) {
      if (!link) continue;
      const double latency = unpacker.real(), bandwidth = unpacker.real(), reduce = unpacker.real();
      if (!(latency >= 0 && bandwidth > 0 && reduce >= 0 && std::isfinite(latency + bandwidth + reduce)))
        throw comm::told_wrong(
            from, "probe of links",
            fmt::format("a link of {} s, {} bytes/s and {} s per byte", latency, bandwidth, reduce));
      link->latency = std::max(link->latency, latency);
      link->bandwidth = std::min(link->bandwidth, bandwidth);
      link->reduce = std::max(link->reduce, reduce);
    }
  }
  co_return links;
}

task::Task<void> choose_codecs(TrainContext world, RankGroups ranks, CodecChoice choice, plan::Plan* plan) {
  for (std::size_t l = 0; l < choice.links->size(); ++l) {
    if (!(*choice.links)[l]) continue;
    LevelChoice level(world, ranks, choice, l, *plan);
    co_await level.choose();
  }
}

void tell_of_codecs_inside_hosts(Observer& observer, const plan::Plan& plan,
                                 std::span<const exchange::LevelShape> shapes,
                                 const exchange::Extensions& own) {
  for (std::size_t l = 0; l < shapes.size(); ++l) {
    const plan::LevelPlan& level = plan.exchange.levels[l];
    const exchange::LevelShape& shape = shapes[l];
    if (!exchange::is_coded(level) || level.codec.force || weighs(level, shape.size, own)) continue;
    if (shape.size == 1 || !shape.shares_memory) continue;
    observer.noticed(
        fmt::format("level {}: its {} members are on one host, where codec {} mostly costs more than it "
                    "saves; take codec "
                    "none, or say force: true",
                    l, shape.size, level.codec.name));
  }
}

}  // namespace taxon::train
