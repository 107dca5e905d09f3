#include "exchange/all_reduce.h"

#include "exchange/coded.h"

namespace taxon::exchange {
namespace {

class AllReduce final : public Topology {
 public:
  explicit AllReduce(comm::Communicator& group) : group_(group) {}
  Range owned(Range range) const override { return range; }

  task::Task<double> reduce(Leg leg, const tensor::Arena& values) override {
    if (group_.size() == 1) co_return 1;
    comm::Call call{values.bytes(leg.range), values.type(), leg.unit, leg.lane};
    auto sum = leg.rows.reduce->run(group_, call);
    co_await sum;
    co_return group_.size();
  }

  task::Task<void> spread(Leg, const tensor::Arena&) override { co_return; }
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }

 private:
  comm::Communicator& group_;
};

}  // namespace

std::unique_ptr<Topology> make_all_reduce(comm::Communicator& group, TopologyContext context) {
  if (is_coded(context.level)) return make_coded(group, context);
  return std::make_unique<AllReduce>(group);
}

}  // namespace taxon::exchange
