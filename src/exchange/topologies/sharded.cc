#include "exchange/compression/coded.h"
#include "exchange/levels/topology.h"

namespace taxon::exchange {
namespace {

class Sharded final : public Topology {
 public:
  explicit Sharded(comm::Communicator& group) : group_(group) {}

  bool spreads() const override { return group_.size() > 1; }
  Range owned(Range range) const override {
    return part(range, static_cast<std::size_t>(group_.size()), static_cast<std::size_t>(group_.rank()));
  }

  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override {
    if (group_.size() == 1) co_return 1;
    comm::Call call{values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane};
    co_await transfer.rows.reduce->run(group_, call);
    co_return group_.size();
  }

  task::Task<void> spread(LevelTransfer transfer, const tensor::Arena& values) override {
    if (group_.size() == 1) co_return;
    comm::Call call{values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane};
    co_await transfer.rows.spread->run(group_, call);
  }

  task::Task<double> total(double mine, std::uint16_t lane) override {
    if (group_.size() == 1) co_return mine;
    comm::Call call{as_view(std::span(&mine, 1)), DType::Float64, kTotalUnit, lane};
    auto sum = comm::find_row(net::Operation::AllReduce, "tree").run(group_, call);
    co_await sum;
    co_return mine;
  }

 private:
  comm::Communicator& group_;
};

std::unique_ptr<Topology> make(comm::Communicator& group, TopologyContext context) {
  auto dense = std::make_unique<Sharded>(group);
  if (is_coded(context.level)) return make_coded(group, context, std::move(dense), true);
  return dense;
}

}  // namespace

/// Sharded state (ZeRO: Rajbhandari et al., SC 2020, arXiv 1910.02054): reduce scatters the sum over the
/// members, each updates its part, and spread gathers the values. As many bytes as an all-reduce, 1/n of the
/// optimiser's state.
TopologyRow sharded() {
  return {.name = "sharded",
          .make = make,
          .reduce = net::Operation::ReduceScatter,
          .spread = net::Operation::AllGather,
          .owned =
              [](std::size_t count, int size) {
                return part({0, count}, static_cast<std::size_t>(size), 0).size;
              },
          .sum = plan::SumAt::Parts,
          .sentence = "each member owns its part, with the optimiser's state for it (ZeRO-1)",
          .optimisation = "sharded"};
}

}  // namespace taxon::exchange
