#include "exchange/compression/coded.h"

#include "exchange/compression/aggregation.h"
#include "exchange/compression/coder.h"
#include "exchange/compression/compressed_reduce.h"
#include "exchange/compression/differences.h"
#include "exchange/levels/algorithm_selection.h"

namespace taxon::exchange {
namespace {

double sent_by(const CompressedReduce& reduce, std::size_t count) {
  const codec::Extent extent{count, reduce.context.pieces};
  const int size = reduce.group.size();
  if (reduce.collective == "auto") return aggregation_of(reduce.codec).sent(reduce.codec, extent, size);
  return sent_linear_by(reduce.codec, extent, size, std::string(reduce.collective), reduce.own_collectives);
}

/// What values travel by that the codec leaves as they are: the all-reduce that the plan names, which a group
/// of one has no use for.
const comm::CollectiveRow& dense_row(bool parts, const std::string& collective, int size, std::size_t bytes,
                                     std::span<const comm::CollectiveRow> own) {
  const auto operation = parts ? net::Operation::ReduceScatter : net::Operation::AllReduce;
  return choose(operation, parts || size == 1 ? "auto" : collective, {size, bytes, false}, own);
}

/// The dense topology says who owns what, and carries what the codec leaves as it is.
class Coded final : public Topology, public Stateful {
 public:
  Coded(comm::Communicator& group, const TopologyContext& context, std::unique_ptr<Topology> dense,
        bool parts)
      : group_(group),
        coder_(context),
        dense_(std::move(dense)),
        parts_(parts),
        collective_(context.level.collective),
        own_collectives_(context.collectives) {}

  Range owned(Range range) const override { return dense_->owned(range); }
  bool spreads() const override { return dense_->spreads(); }

  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override {
    if (group_.size() == 1 && coder_.chooses()) co_return 1;
    const bool recorded =
        !parts_ && transfer.rows.reduce;  // and so it was decided that the values travel as they are
    const std::size_t bytes = values.bytes(transfer.range).size();
    if (!recorded)
      transfer.rows.reduce = &dense_row(parts_, collective_, group_.size(), bytes, own_collectives_);
    const double dense = transfer.rows.reduce->sent({group_.size(), bytes, false});
    if (recorded || coder_.leaves_dense(transfer.range.size, transfer.round)) {
      coder_.count(dense, dense);
      co_await coder_.pass(group_, transfer, values);
      co_return co_await dense_->reduce(transfer, values);
    }
    const CompressedReduce reduce = coder_.reduce_of(group_, transfer, values);
    coder_.count(dense, parts_ ? sent_to_owners(reduce.codec, transfer.range.size, group_.size())
                               : sent_by(reduce, transfer.range.size));
    auto travelling = parts_ ? aggregate_at_owners(reduce) : aggregation_of(reduce.codec).run(reduce);
    co_await travelling;
    if (!parts_) {
      ReduceKernels kernels(reduce);
      co_await kernels.conclude();
    }
    co_return group_.size();
  }

  task::Task<void> spread(LevelTransfer transfer, const tensor::Arena& values) override {
    return dense_->spread(transfer, values);
  }
  task::Task<double> total(double mine, std::uint16_t lane) override { return dense_->total(mine, lane); }
  const CodecWork* codec_work() const override { return &coder_.work(); }
  Stateful* stateful() override { return this; }
  std::vector<StateArena> state() const override { return coder_.state(); }
  void prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) override {
    coder_.prepare(like, slots);
  }

 private:
  comm::Communicator& group_;
  Coder coder_;
  const std::unique_ptr<Topology> dense_;
  const bool parts_;
  const std::string collective_;
  const std::span<const comm::CollectiveRow> own_collectives_;
};

}  // namespace

std::unique_ptr<Topology> make_coded(comm::Communicator& group, TopologyContext context,
                                     std::unique_ptr<Topology> dense, bool parts) {
  auto coded = std::make_unique<Coded>(group, context, std::move(dense), parts);
  if (context.level.rule == "sum") return coded;
  return std::make_unique<Differences>(group, std::move(coded));
}

bool is_coded(const plan::LevelPlan& level) { return level.codec.name != "none"; }

double coded_bytes_sent(const plan::LevelPlan& level, const codec::Extent& extent, int size,
                        const Extensions& own) {
  const bool shards = sum_at(level, own.topologies) == plan::SumAt::Parts;
  const std::size_t bytes = extent.count * sizeof(float);
  if (leaves_dense(level.codec, extent.count))
    return dense_row(shards, level.collective, size, bytes, own.collectives).sent({size, bytes, false});
  auto codec = codec::find_codec(level.codec.candidate(), own.codecs).make(level.codec.options);
  if (shards) return sent_to_owners(*codec, extent, size);
  double sent = 0;
  for (int turn = 0; turn < codec->cycle(); ++turn) {
    const codec::Codec& here = codec->in_turn(turn);
    sent += level.collective == "auto"
                ? aggregation_of(here).sent(here, extent, size)
                : sent_linear_by(here, extent, size, level.collective, own.collectives);
  }
  return sent / codec->cycle();
}

}  // namespace taxon::exchange
