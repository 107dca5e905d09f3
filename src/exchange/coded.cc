#include "exchange/coded.h"

#include "exchange/coder.h"
#include "exchange/differences.h"
#include "exchange/travel.h"
#include "exchange/trip.h"

namespace taxon::exchange {
namespace {

double sent_by(const Trip& trip, std::size_t count) {
  const codec::Extent extent{count, trip.use.pieces};
  const int size = trip.group.size();
  if (trip.collective == "auto") return travel_of(trip.codec).sent(trip.codec, extent, size);
  return sent_linear_by(trip.codec, extent, size, std::string(trip.collective));
}

/// Everybody owns everything.
class Coded final : public Topology {
 public:
  Coded(comm::Communicator& group, const TopologyContext& context) : group_(group), coder_(context) {}

  Range owned(Range range) const override { return range; }

  task::Task<double> reduce(Leg leg, const tensor::Arena& values) override {
    const comm::Call call{values.bytes(leg.range), values.type(), leg.unit, leg.lane};
    if (group_.size() == 1 && coder_.chooses()) co_return 1;
    const comm::CollectiveRow& row =
        leg.rows.reduce ? *leg.rows.reduce
                        : row_for(net::Operation::AllReduce, group_.size(), call.data.size());
    const double dense = row.sent({group_.size(), call.data.size(), false});
    if (leg.rows.reduce || coder_.leaves_dense(leg.range.size, leg.round)) {
      coder_.count(dense, dense);
      auto passing = coder_.pass(group_, leg, values);
      co_await passing;
      auto sum = row.run(group_, call);
      co_await sum;
      co_return group_.size();
    }
    const Trip trip = coder_.trip(group_, leg, values);
    coder_.count(dense, sent_by(trip, leg.range.size));
    auto travelling = travel_of(trip.codec).run(trip);
    co_await travelling;
    TripDesk desk(trip);
    auto concluding = desk.conclude();
    co_await concluding;
    co_return group_.size();
  }

  task::Task<void> spread(Leg, const tensor::Arena&) override { co_return; }
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }
  void prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) override {
    coder_.prepare(like, slots);
  }
  std::vector<Kept> kept() const override { return coder_.kept(); }
  const CodecWork* codec_work() const override { return &coder_.work(); }

 private:
  comm::Communicator& group_;
  Coder coder_;
};

/// Members own parts: what `dense` is but for the way of the contributions.
class CodedShards final : public Topology {
 public:
  CodedShards(comm::Communicator& group, const TopologyContext& context, std::unique_ptr<Topology> dense)
      : group_(group), coder_(context), dense_(std::move(dense)) {}

  Range owned(Range range) const override { return dense_->owned(range); }
  bool spreads() const override { return dense_->spreads(); }

  task::Task<double> reduce(Leg leg, const tensor::Arena& values) override {
    const std::size_t bytes = values.bytes(leg.range).size();
    const comm::CollectiveRow& row = row_for(net::Operation::ReduceScatter, group_.size(), bytes);
    const double dense = row.sent({group_.size(), bytes, false});
    if (coder_.leaves_dense(leg.range.size, leg.round)) {
      coder_.count(dense, dense);
      auto passing = coder_.pass(group_, leg, values);
      co_await passing;
      leg.rows.reduce = &row;
      auto sum = dense_->reduce(leg, values);
      co_return co_await sum;
    }
    const Trip trip = coder_.trip(group_, leg, values);
    coder_.count(dense, sent_to_owners(trip.codec, leg.range.size, group_.size()));
    auto travelling = travel_to_owners(trip);
    co_await travelling;
    co_return group_.size();
  }

  task::Task<void> spread(Leg leg, const tensor::Arena& values) override {
    return dense_->spread(leg, values);
  }
  task::Task<double> total(double mine, std::uint16_t lane) override { return dense_->total(mine, lane); }
  void prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) override {
    coder_.prepare(like, slots);
  }
  std::vector<Kept> kept() const override { return coder_.kept(); }
  const CodecWork* codec_work() const override { return &coder_.work(); }

 private:
  comm::Communicator& group_;
  Coder coder_;
  const std::unique_ptr<Topology> dense_;
};

std::unique_ptr<Topology> as_they_meet(comm::Communicator& group, const TopologyContext& context,
                                       std::unique_ptr<Topology> coded) {
  if (context.level.rule == "sum") return coded;
  return std::make_unique<Differences>(group, std::move(coded));
}

}  // namespace

std::unique_ptr<Topology> make_coded(comm::Communicator& group, TopologyContext context) {
  return as_they_meet(group, context, std::make_unique<Coded>(group, context));
}

std::unique_ptr<Topology> make_coded_shards(comm::Communicator& group, TopologyContext context,
                                            std::unique_ptr<Topology> dense) {
  return as_they_meet(group, context, std::make_unique<CodedShards>(group, context, std::move(dense)));
}

bool is_coded(const plan::LevelPlan& level) { return level.codec.name != "none"; }

double coded_bytes_sent(const plan::LevelPlan& level, const codec::Extent& extent, int size) {
  const bool shards = level.topology == "sharded";
  const std::size_t bytes = extent.count * sizeof(float);
  if (leaves_dense(level.codec, extent.count))
    return row_for(shards ? net::Operation::ReduceScatter : net::Operation::AllReduce, size, bytes)
        .sent({size, bytes, false});
  auto codec = codec::find_codec(level.codec.candidate()).make(level.codec);
  if (shards) return sent_to_owners(*codec, extent, size);
  double sent = 0;
  for (int turn = 0; turn < codec->cycle(); ++turn) {
    const codec::Codec& here = codec->in_turn(turn);
    sent += level.collective == "auto" ? travel_of(here).sent(here, extent, size)
                                       : sent_linear_by(here, extent, size, level.collective);
  }
  return sent / codec->cycle();
}

}  // namespace taxon::exchange
