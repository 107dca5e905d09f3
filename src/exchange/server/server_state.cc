#include "exchange/server/server_state.h"

#include "exchange/cast.h"

namespace taxon::exchange {
namespace {

using Rate = std::function<double(std::int64_t)>;

class Weights final : public ServerState {
 public:
  Weights(std::unique_ptr<optim::Rule> rule, tensor::Arena weights, Rate rate)
      : rule_(std::move(rule)), weights_(std::move(weights)), rate_(std::move(rate)) {}
  void begin(const tensor::Arena& weights, Range range) override { cast_range(weights, weights_, range); }
  void update(const tensor::Arena& sum, Range range, const PendingUpdate& pool) override {
    rule_->update(weights_, sum, {range, 0, range.begin},
                  {pool.before, pool.samples, rate_(pool.samples), pool.scale});
  }
  const tensor::Arena& values() const override { return weights_; }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override {
    auto state = rule_->state();
    state.emplace_back("weights", &weights_);
    return state;
  }

 private:
  std::unique_ptr<optim::Rule> rule_;
  tensor::Arena weights_;
  Rate rate_;
};

class Centre final : public ServerState {
 public:
  Centre(std::unique_ptr<optim::OuterRule> rule, Rate rate) : rule_(std::move(rule)), rate_(std::move(rate)) {
    answers = Answers::Updates;
  }
  void begin(const tensor::Arena& weights, Range range) override {
    rule_->begin(weights, optim::UpdateRange::same(range));
  }
  void update(const tensor::Arena& sum, Range range, const PendingUpdate& pool) override {
    rule_->update(sum, {range, 0, range.begin}, pool.contributions,
                  {pool.before, pool.samples, rate_(pool.samples), 1});
  }
  const tensor::Arena& values() const override { return *rule_->centre(); }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return rule_->state(); }

 private:
  std::unique_ptr<optim::OuterRule> rule_;
  Rate rate_;
};

}  // namespace

std::unique_ptr<ServerState> make_weight_server(std::unique_ptr<optim::Rule> rule, tensor::Arena weights,
                                                Rate rate) {
  return std::make_unique<Weights>(std::move(rule), std::move(weights), std::move(rate));
}
std::unique_ptr<ServerState> make_centre_server(std::unique_ptr<optim::OuterRule> rule, Rate rate) {
  return std::make_unique<Centre>(std::move(rule), std::move(rate));
}

}  // namespace taxon::exchange
