#include "exchange/coded.h"

#include <algorithm>
#include <map>

#include "codec/codec.h"
#include "codec/wire.h"
#include "exchange/travel.h"

namespace taxon::exchange {
namespace {

/// The codecs of the warm-up, each of its density, then the plan's.
std::vector<std::unique_ptr<codec::Codec>> stages_of(const plan::CodecPlan& plan,
                                                     const codec::CodecRow& row) {
  std::vector<std::unique_ptr<codec::Codec>> stages;
  for (double density : plan.warmup_density) {
    plan::CodecPlan warm = plan;
    warm.density = density;
    stages.push_back(row.make(warm));
  }
  stages.push_back(row.make(plan));
  return stages;
}

bool is_dense(const plan::CodecPlan& plan, std::size_t count) {
  return count < static_cast<std::size_t>(plan.dense_below);
}

class Coded final : public Topology {
 public:
  Coded(comm::Communicator& group, TopologyContext context)
      : group_(group),
        plan_(context.level.codec),
        collective_(context.level.collective),
        seed_(codec::mix(context.seed)),
        stages_(stages_of(plan_, codec::find_codec(plan_.candidate(), context.codecs))),
        keeps_(keeps_errors(plan_, codec::find_codec(plan_.candidate(), context.codecs))) {}

  Range owned(Range range) const override { return range; }

  task::Task<double> reduce(Leg leg, const tensor::Arena& values) override {
    const comm::Call call{values.bytes(leg.range), values.type(), leg.unit, leg.lane};
    if (group_.size() == 1 && plan_.name == "auto") co_return 1;
    const comm::CollectiveRow& row =
        leg.rows.reduce ? *leg.rows.reduce
                        : row_for(net::Operation::AllReduce, group_.size(), call.data.size());
    const double dense = row.sent({group_.size(), call.data.size(), false});
    work_.dense_bytes += dense;
    if (is_dense(plan_, leg.range.size) || leg.rows.reduce) {
      work_.sent_bytes += dense;
      auto sum = row.run(group_, call);
      co_await sum;
      co_return group_.size();
    }
    if (!prepared_) prepare(values, {});
    const codec::Codec& codec = stage(leg.round);
    const codec::Feedback feedback(codec, {static_cast<float>(plan_.momentum), plan_.masking});
    // Chance is a function of the step and the range, so that a run that resumes draws the same again.
    const std::uint64_t shared =
        codec::mix(codec::mix(seed_ + static_cast<std::uint64_t>(leg.round)) + leg.unit);
    const std::uint64_t own = codec::mix(shared + static_cast<std::uint64_t>(group_.rank()) + 1);
    Trip trip{group_, codec, feedback, call, keeps_, View(), View(), View(), {View(), shared, own}};
    trip.use.pieces = pieces(leg.range);
    if (keeps_) trip.errors = errors_.bytes(leg.range);
    if (velocity_.size() > 0) trip.velocity = velocity_.bytes(leg.range);
    if (lasting_.size() > 0) trip.lasting = lasting_.bytes(leg.range);
    trip.work = &work_;
    trip.collective = collective_;
    const TravelRow& travel = travel_of(codec);
    const codec::Extent extent{leg.range.size, trip.use.pieces};
    work_.sent_bytes += collective_ == "auto" ? travel.sent(codec, extent, group_.size())
                                              : sent_linear_by(codec, extent, group_.size(), collective_);
    auto travelling = travel.run(trip);
    co_await travelling;
    co_return group_.size();
  }

  task::Task<void> spread(Leg, const tensor::Arena&) override { co_return; }
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }

  void prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) override {
    auto beside = [&like](bool wanted) {
      return wanted ? tensor::Arena(like.type(), like.size(), like.bytes()) : tensor::Arena();
    };
    errors_ = beside(keeps_);
    velocity_ = beside(plan_.momentum > 0);
    lasting_ = beside(stages_.back()->lasts());
    slots_.assign(slots.begin(), slots.end());
    prepared_ = true;
  }
  std::vector<Kept> kept() const override {
    std::vector<Kept> kept;
    if (errors_.size() > 0) kept.push_back({"errors", &errors_});
    if (velocity_.size() > 0) kept.push_back({"velocity", &velocity_});
    if (lasting_.size() > 0) kept.push_back({"factors", &lasting_});
    return kept;
  }
  const CodecWork* codec_work() const override { return &work_; }

 private:
  const codec::Codec& stage(std::int64_t step) const {
    const auto stage = static_cast<std::size_t>(step / plan_.warmup_steps);
    return stages_[std::min(stage, stages_.size() - 1)]->in_turn(step);
  }

  /// Made once for each range.
  std::span<const codec::Piece> pieces(Range range) {
    auto [found, first] = pieces_.try_emplace({range.begin, range.size});
    if (first) found->second = pieces_of(slots_, range);
    return found->second;
  }

  comm::Communicator& group_;
  const plan::CodecPlan plan_;
  const std::string collective_;
  const std::uint64_t seed_;
  const std::vector<std::unique_ptr<codec::Codec>> stages_;
  const bool keeps_;
  bool prepared_ = false;
  CodecWork work_;
  tensor::Arena errors_, velocity_, lasting_;  // as the values' arena
  std::vector<tensor::Slot> slots_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<codec::Piece>> pieces_;  // by range
};

}  // namespace

bool keeps_errors(const plan::CodecPlan& plan, const codec::CodecRow& row) {
  if (plan.feedback == "auto") return !row.votes && (row.biased || plan.momentum > 0);
  return plan.feedback == "memory";
}

std::unique_ptr<Topology> make_coded(comm::Communicator& group, TopologyContext context) {
  return std::make_unique<Coded>(group, context);
}

bool is_coded(const plan::LevelPlan& level) { return level.codec.name != "none"; }

std::vector<codec::Piece> pieces_of(std::span<const tensor::Slot> slots, Range range) {
  std::vector<codec::Piece> pieces;
  for (const tensor::Slot& slot : slots) {
    const std::size_t begin = std::max(slot.range.begin, range.begin);
    const std::size_t end = std::min(slot.range.end(), range.end());
    if (begin >= end) continue;
    const bool matrix = slot.shape.size() > 1 && slot.shape.front() > 0;
    pieces.push_back({{begin - range.begin, end - begin},
                      matrix ? slot.range.size / static_cast<std::size_t>(slot.shape.front()) : 0});
  }
  return pieces;
}

double coded_bytes_sent(const plan::LevelPlan& level, const codec::Extent& extent, int size) {
  const std::size_t bytes = extent.count * sizeof(float);
  if (is_dense(level.codec, extent.count))
    return row_for(net::Operation::AllReduce, size, bytes).sent({size, bytes, false});
  auto codec = codec::find_codec(level.codec.candidate()).make(level.codec);
  double sent = 0;
  for (int turn = 0; turn < codec->cycle(); ++turn) {
    const codec::Codec& here = codec->in_turn(turn);
    sent += level.collective == "auto" ? travel_of(here).sent(here, extent, size)
                                       : sent_linear_by(here, extent, size, level.collective);
  }
  return sent / codec->cycle();
}

}  // namespace taxon::exchange
