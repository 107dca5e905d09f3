#pragma once

#include "exchange/server/parameter_server.h"

namespace taxon::exchange {

inline constexpr double kRate = 0.1;

inline Layout layout_of() {
  const std::vector<Tensor> tensors = {{"a", {40}}, {"b", {24}}};
  plan::ExchangePlan plan;
  plan.bucket_bytes = plan.slice_bytes = 320;
  return lay_out(tensors, cut_buckets(tensors, DType::Float64, plan), DType::Float64);
}

/// One rank's side of a group of workers and servers.
class Member {
 public:
  Member(comm::Runtime& runtime, int ranks, int dedicated, plan::LevelPlan level)
      : runtime_(runtime),
        level_(std::move(level)),
        layout_(layout_of()),
        roles_{ranks, dedicated},
        group_(runtime, "data", everybody(ranks)),
        weights(runtime.transport, DType::Float64, layout_.arena.size()),
        gradients(runtime.transport, DType::Float64, layout_.arena.size()) {}

  task::Task<void> begin(double initial) {
    auto establish = group_.establish();
    co_await establish;
    for (double& value : all(weights)) value = initial;
    servers_ = find_topology("servers").make(group_, {.level = level_, .servers = roles_.dedicated});
    if (!roles_.serves(group_.rank())) co_return;
    ParameterServer::Setup setup;
    setup.layout = &layout_;
    setup.group = &group_;
    setup.roles = roles_;
    setup.level = &level_;
    setup.consistency = &find_consistency(level_.consistency);
    setup.weights = &weights;
    setup.late = [this](std::size_t owned) {
      return optim::find_late(level_.late).make(level_, {DType::Float64, owned, roles_.workers(), {}});
    };
    plan::OptimiserPlan sgd;
    sgd.rule = "sgd";
    setup.owner = make_weight_server(
        optim::rule_table()[0].make(sgd, {DType::Float64, layout_.arena.size(), {}, {}}),
        tensor::Arena(DType::Float64, layout_.arena.size()), [](std::int64_t) { return kRate; });
    service_ = std::make_unique<ParameterServer>(runtime_, std::move(setup));
    auto opening = service_->open();
    co_await opening;
    service_->serve(std::int64_t{0}, std::int64_t{0});
  }
  /// Hands in what `gradients` has, as one of the workers' equal shares, and waits for the weights, which
  /// come into `weights` or `into`.
  task::Task<void> turn(const tensor::Arena* into = nullptr) {
    servers_->asynchronous()->begin_turn();
    servers_->asynchronous()->weigh(1, roles_.workers());
    for (double& value : all(gradients)) value /= roles_.workers();
    for (const Bucket& bucket : layout_.buckets) {
      LevelTransfer transfer{static_cast<std::uint32_t>(bucket.id.value()), 0, bucket.range, {}, 0};
      transfer.lasts = lasts;
      auto reducing = servers_->reduce(transfer, gradients);
      co_await reducing;
      auto spreading = servers_->spread(transfer, into ? *into : weights);
      co_await spreading;
    }
  }
  task::Task<void> end() {
    std::vector<Range> units;
    for (const Bucket& bucket : layout_.buckets) units.push_back(bucket.range);
    auto closing = servers_->asynchronous()->close(std::move(units), &gradients);
    co_await closing;
    if (!service_) co_return;
    auto closed = service_->closed();
    co_await closed;
  }
  /// A token makes one worker go on after another.
  task::Task<void> give_token(int to) {
    net::SendOp gives(runtime_.transport, Rank(to), group_.tag(net::Operation::Serve, kToken),
                      as_const_view(std::span<const std::int64_t>(&token_, 1)), DType::Int64);
    co_await gives;
  }
  task::Task<void> take_token(int from) {
    net::RecvOp takes(runtime_.transport, Rank(from), group_.tag(net::Operation::Serve, kToken),
                      as_view(std::span<std::int64_t>(&token_, 1)), DType::Int64);
    co_await takes;
  }
  std::span<double> all(const tensor::Arena& arena) const { return arena.values<double>({0, arena.size()}); }
  bool works() const { return roles_.works(group_.rank()); }
  int rank() const { return group_.rank(); }
  const ParameterServer* service() const { return service_.get(); }

 private:
  static constexpr std::uint32_t kToken = 0x50000000;
  static std::vector<Rank> everybody(int ranks) {
    std::vector<Rank> everybody;
    for (int r = 0; r < ranks; ++r) everybody.emplace_back(r);
    return everybody;
  }
  comm::Runtime& runtime_;
  const plan::LevelPlan level_;
  const Layout layout_;
  const Roles roles_;
  comm::Communicator group_;
  std::unique_ptr<Topology> servers_;
  std::unique_ptr<ParameterServer> service_;
  std::int64_t token_ = 0;

 public:
  tensor::Arena weights, gradients;
  bool lasts = true;  // see LevelTransfer
};

inline plan::LevelPlan level_of(std::int64_t staleness, int apply, const char* late = "as_others",
                                double compensation = 0) {
  plan::LevelPlan level;
  level.topology = "servers";
  level.late = late;
  level.options = {{"staleness", staleness}, {"apply", apply}};
  level.options.set("compensation", compensation);
  return level;
}

}  // namespace taxon::exchange
