#include "exchange/compression/coder.h"

#include <algorithm>

#include "codec/wire.h"
#include "exchange/compression/compressed_reduce.h"

namespace taxon::exchange {
namespace {

bool estimates(const plan::CodecPlan& plan) { return plan.feedback == plan::FeedbackKind::Difference; }

}  // namespace

bool keeps_errors(const plan::CodecPlan& plan, const codec::CodecRow& row) {
  if (plan.feedback == plan::FeedbackKind::Auto) return !row.votes && (row.biased || plan.momentum > 0);
  return plan.feedback == plan::FeedbackKind::Memory || plan.feedback == plan::FeedbackKind::Difference;
}

Coder::Coder(const TopologyContext& context)
    : plan_(context.level.codec),
      collective_(context.level.collective),
      own_collectives_(context.collectives),
      seed_(codec::mix(context.seed)),
      stages_(stages_of(plan_, codec::find_codec(plan_.candidate(), context.codecs))),
      keeps_(keeps_errors(plan_, codec::find_codec(plan_.candidate(), context.codecs))) {}

/// The codecs of the warm-up, each of its density, then the plan's.
std::vector<Coder::Stage> Coder::stages_of(const plan::CodecPlan& plan, const codec::CodecRow& row) {
  std::vector<Stage> stages;
  auto add = [&](const plan::Options& of_stage) {
    auto codec = row.make(of_stage);
    const codec::Feedback::Options options{
        .kind = estimates(plan) ? codec::Feedback::Kind::Difference : codec::Feedback::Kind::Memory,
        .decay = static_cast<float>(plan.decay),
        .momentum = static_cast<float>(plan.momentum),
        .masking = plan.masking};
    std::vector<codec::Feedback> feedbacks;
    for (int turn = 0; turn < codec->cycle(); ++turn) feedbacks.emplace_back(codec->in_turn(turn), options);
    stages.push_back({std::move(codec), std::move(feedbacks)});
  };
  for (double density : plan.warmup_density) {
    plan::Options warm = plan.options;
    warm.set("density", density);
    warm.erase("entries");
    add(warm);
  }
  add(plan.options);
  return stages;
}

const Coder::Stage& Coder::stage(std::int64_t step) const {
  const auto stage = static_cast<std::size_t>(step / plan_.warmup_steps);
  return stages_[std::min(stage, stages_.size() - 1)];
}

bool Coder::leaves_dense(std::size_t count, std::int64_t step) const {
  return exchange::leaves_dense(plan_, count) || step < plan_.dense_steps;
}

std::size_t Coder::wire_bytes(std::size_t count, std::int64_t round) const {
  return stage(round).codec->wire_bytes(0, count);
}

CompressedReduce Coder::reduce_of(comm::Communicator& group, const LevelTransfer& transfer,
                                  const tensor::Arena& values) {
  if (!prepared_) prepare(values, {});
  CompressedReduce reduce = reduce_of_part(group, transfer, values.bytes(transfer.range));
  reduce.keeps = keeps_;
  if (keeps_) reduce.errors = errors_.bytes(transfer.range);
  if (velocity_.size() > 0) reduce.velocity = velocity_.bytes(transfer.range);
  if (lasting_.size() > 0) reduce.lasting = lasting_.bytes(transfer.range);
  if (estimate_.size() > 0) reduce.estimate = estimate_.bytes(transfer.range);
  return reduce;
}

task::Task<void> Coder::pass(comm::Communicator& group, LevelTransfer transfer, const tensor::Arena& values) {
  if (plan_.momentum == 0) co_return;
  const CompressedReduce reduce = this->reduce_of(group, transfer, values);
  ReduceKernels kernels(reduce);
  co_await kernels.pass();
}

CompressedReduce Coder::reduce_of_part(comm::Communicator& group, const LevelTransfer& transfer,
                                       View values) {
  const Stage& stage = this->stage(transfer.round);
  // Chance is a function of the step and the range, so that a run that resumes draws the same again.
  const std::uint64_t shared =
      codec::mix(codec::mix(seed_ + static_cast<std::uint64_t>(transfer.round)) + transfer.unit);
  const std::uint64_t own = codec::mix(shared + static_cast<std::uint64_t>(group.rank()) + 1);
  const comm::Call call{values, DType::Float32, transfer.unit, transfer.lane};
  // What comes round begins with the first step that is coded.
  const std::int64_t dense = transfer.meeting ? 0 : std::min<std::int64_t>(transfer.round, plan_.dense_steps);
  const std::int64_t coded = transfer.turn() - dense;
  const auto cycle = static_cast<std::int64_t>(stage.feedbacks.size());
  const auto turn = static_cast<std::size_t>(cycle > 1 ? coded % cycle : 0);
  CompressedReduce reduce{group, stage.codec->in_turn(coded), stage.feedbacks[turn], call};
  reduce.work = &work_;
  reduce.collective = collective_;
  reduce.own_collectives = own_collectives_;
  reduce.context.shared = shared;
  reduce.context.own = own;
  reduce.context.pieces = pieces(transfer.range);
  return reduce;
}

void Coder::prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) {
  auto beside = [&like](bool wanted) {
    return wanted ? tensor::Arena(like.type(), like.size(), like.bytes()) : tensor::Arena();
  };
  errors_ = beside(keeps_);
  velocity_ = beside(plan_.momentum > 0);
  lasting_ = beside(stages_.back().codec->lasts());
  estimate_ = beside(estimates(plan_));
  know(slots);
  prepared_ = true;
}

/// By what they are: a run that resumes with another feedback or codec must not take one for the other.
std::vector<StateArena> Coder::state() const {
  std::vector<StateArena> kept;
  if (errors_.size() > 0) kept.push_back({estimates(plan_) ? "estimates of gradients" : "errors", &errors_});
  if (velocity_.size() > 0) kept.push_back({"velocity", &velocity_});
  if (lasting_.size() > 0) kept.push_back({"factors " + plan_.candidate(), &lasting_});
  if (estimate_.size() > 0) kept.push_back({"sum of estimates", &estimate_});
  return kept;
}

/// Made once for each range.
std::span<const codec::Piece> Coder::pieces(Range range) {
  auto [found, first] = pieces_.try_emplace({range.begin, range.size});
  if (first) found->second = pieces_of(slots_, range);
  return found->second;
}

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

bool leaves_dense(const plan::CodecPlan& plan, std::size_t count) {
  return count < static_cast<std::size_t>(plan.dense_below);
}

}  // namespace taxon::exchange
