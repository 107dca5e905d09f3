#include "exchange/all_reduce.h"

namespace taxon::exchange {
namespace {

class AllReduce final : public Topology {
 public:
  explicit AllReduce(comm::Communicator& group) : group_(group) {}
  Range owned(Range bucket) const override { return bucket; }

  task::Task<void> reduce(const Bucket& bucket, const tensor::Arena& gradients) override {
    if (group_.size() == 1) co_return;
    comm::Call call{gradients.bytes(bucket.range), gradients.type(),
                    static_cast<std::uint32_t>(bucket.id.value())};
    auto sum = bucket.collective->run(group_, call);
    co_await sum;
  }

  task::Task<void> spread(const Bucket&, const tensor::Arena&) override { co_return; }

 private:
  comm::Communicator& group_;
};

}  // namespace

std::unique_ptr<Topology> make_all_reduce(comm::Communicator& group) {
  return std::make_unique<AllReduce>(group);
}

}  // namespace taxon::exchange
