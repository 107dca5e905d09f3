// A topology of one's own: the coordinate-wise median of what the members hand in (Yin et al., ICML 2018),
// which a member that lies cannot pull far, in place of the sum.
#pragma once

#include <taxon/topology.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

class Median final : public taxon::exchange::Topology {
 public:
  static std::unique_ptr<Topology> make(taxon::comm::Communicator& group, taxon::exchange::TopologyContext) {
    return std::make_unique<Median>(group);
  }
  explicit Median(taxon::comm::Communicator& group) : group_(group) {}
  taxon::Range owned(taxon::Range range) const override { return range; }

  /// Everybody gathers everything and finds the same; n medians stand for the sum of n contributions.
  taxon::task::Task<double> reduce(taxon::exchange::LevelTransfer transfer,
                                   const taxon::tensor::Arena& values) override {
    const taxon::View own = values.bytes(transfer.range);
    const auto members = static_cast<std::size_t>(group_.size());
    taxon::comm::Scratch scratch(group_.scratch(), members * own.size(), own);
    const taxon::View all = scratch.bytes();
    const auto rank = static_cast<std::size_t>(group_.rank());
    taxon::comm::ExchangeKernel copying(
        group_, taxon::comm::copy_kernel(all.slice(rank * own.size(), own.size()), own));
    co_await copying.finished();
    taxon::comm::Call call{all, values.type(), transfer.unit, transfer.lane};
    auto gathered = taxon::comm::find_row(taxon::net::Operation::AllGather, "ring").run(group_, call);
    co_await gathered;
    taxon::tensor::Kernel kernel;
    kernel.name = "median";
    kernel.cost.bytes = 2 * all.size();
    kernel.body = [=](taxon::tensor::Milestones&) {
      find_medians(taxon::as_span<double>(all), taxon::as_span<double>(own));
    };
    taxon::comm::ExchangeKernel finding(group_, std::move(kernel));
    co_await finding.finished();
    co_return group_.size();
  }
  taxon::task::Task<void> spread(taxon::exchange::LevelTransfer, const taxon::tensor::Arena&) override {
    co_return;
  }
  taxon::task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }

 private:
  static void find_medians(std::span<const double> all, std::span<double> own) {
    const std::size_t members = own.empty() ? 0 : all.size() / own.size();
    std::vector<double> of_one(members);
    for (std::size_t i = 0; i < own.size(); ++i) {
      for (std::size_t m = 0; m < members; ++m) of_one[m] = all[m * own.size() + i];
      std::sort(of_one.begin(), of_one.end());
      const double median = (of_one[(members - 1) / 2] + of_one[members / 2]) / 2;
      own[i] = static_cast<double>(members) * median;
    }
  }
  taxon::comm::Communicator& group_;
};

inline taxon::exchange::TopologyRow median() {
  return {
      .name = "median",
      .make = Median::make,
      .reduce = taxon::net::Operation::User,  // it sends its messages itself
      .spread = taxon::net::Operation::User,
      .owned = [](std::size_t count, int) { return count; },
      .sent =
          [](const taxon::plan::LevelPlan&, std::size_t bytes, const taxon::exchange::LevelShape& shape,
             const taxon::exchange::Extensions&) { return static_cast<double>(bytes) * (shape.size - 1); },
      .sentence = "the median of what members hand in stands for its mean",
      .optimisation = "replicated"};
}
