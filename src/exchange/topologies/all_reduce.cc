#include "exchange/compression/coded.h"
#include "exchange/compression/factors.h"
#include "exchange/levels/topology.h"

namespace taxon::exchange {
namespace {

class AllReduce final : public Topology {
 public:
  AllReduce(comm::Communicator& group, const plan::LevelPlan& level)
      : group_(group), has_factors_(level.factors != plan::FactorUse::None) {}
  Range owned(Range range) const override { return range; }

  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override {
    if (transfer.factors) {
      count(transfer, values);
      co_await sum_factors(&group_, transfer, &values, &work_);
      co_return group_.size();
    }
    if (group_.size() == 1) co_return 1;
    comm::Call call{values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane,
                    transfer.precedence};
    count(transfer, values);
    co_await transfer.rows.reduce->run(group_, call);
    co_return group_.size();
  }

  task::Task<void> spread(LevelTransfer, const tensor::Arena&) override { co_return; }
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }
  const CodecWork* codec_work() const override { return has_factors_ ? &work_ : nullptr; }

 private:
  /// What the transfer sends, beside what an all-reduce of its values would.
  void count(const LevelTransfer& transfer, const tensor::Arena& values) {
    if (group_.size() == 1) return;
    const std::size_t bytes = values.bytes(transfer.range).size();
    const comm::CollectiveRow& row = transfer.rows.reduce
                                         ? *transfer.rows.reduce
                                         : row_for(net::Operation::AllReduce, group_.size(), bytes);
    const double dense = row.sent({group_.size(), bytes, false});
    work_.dense_bytes += dense;
    work_.sent_bytes +=
        transfer.factors
            ? (group_.size() - 1.0) * static_cast<double>(transfer.factors->block() * size_of(values.type()))
            : dense;
  }

  comm::Communicator& group_;
  const bool has_factors_;
  CodecWork work_;
};

std::unique_ptr<Topology> make(comm::Communicator& group, TopologyContext context) {
  auto dense = std::make_unique<AllReduce>(group, context.level);
  if (is_coded(context.level)) return make_coded(group, context, std::move(dense), false);
  return dense;
}

}  // namespace

/// Replicated state: reduce sums the whole bucket at every member, and since each then updates all of it with
/// the same bits, nothing is left to spread.
TopologyRow all_reduce() {
  return {.name = "all_reduce",
          .make = make,
          .reduce = net::Operation::AllReduce,
          .spread = net::Operation::User,
          .owned = [](std::size_t count, int) { return count; },
          .sum = plan::SumAt::Everyone,
          .sentence = "everybody owns everything",
          .optimisation = "replicated"};
}

}  // namespace taxon::exchange
