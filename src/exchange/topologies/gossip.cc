#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <map>

#include "comm/in_flight.h"
#include "comm/kernels.h"
#include "comm/scratch.h"
#include "comm/trace_scope.h"
#include "exchange/extensions.h"
#include "exchange/levels/topology.h"
#include "exchange/topologies/graph.h"
#include "exchange/topologies/mixing.h"

namespace taxon::exchange {
namespace {

tensor::Kernel scale_kernel(DType type, View values, double factor) {
  return {"scale", {0, 2 * values.size()}, [type, values, factor](tensor::Milestones&) {
            dispatch(type, [&](auto zero) {
              using T = decltype(zero);
              if constexpr (std::is_floating_point_v<T>)
                for (T& value : as_span<T>(values)) value *= T(factor);
            });
          }};
}

/// One round of one unit: the messages of this member, which outlive the coroutine that awaits them.
class Round {
 public:
  Round(comm::Communicator& group, net::Tag tag, Neighbours neighbours)
      : group_(group), tag_(tag), neighbours_(std::move(neighbours)), weights_(neighbours_.from.size()) {}

  void start(View values, DType type, double share, const std::vector<View>& places) {
    share_ = share;
    net::Transport& transport = group_.runtime().transport;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Rank peer = group_.global(neighbours_.from[i]);
      receives_.emplace_back(transport, peer, of(kWeight), as_view(std::span(&weights_[i], 1)),
                             DType::Float64);
      receives_.emplace_back(transport, peer, of(kValues), places[i], type);
    }
    for (int member : neighbours_.to) {
      const Rank peer = group_.global(member);
      sends_.emplace_back(transport, peer, of(kWeight), as_const_view(std::span<const double>(&share_, 1)),
                          DType::Float64);
      sends_.emplace_back(transport, peer, of(kValues), values, type);
    }
  }
  task::Task<void> all() {
    for (net::RecvOp& receive : receives_) co_await receive;
    for (net::SendOp& send : sends_) co_await send;
  }
  double received() const {
    double sum = 0;
    for (double weight : weights_) sum += weight;
    return sum;
  }

 private:
  static constexpr std::uint32_t kWeight = 0, kValues = 1;
  net::Tag of(std::uint32_t round) const {
    net::Tag tag = tag_;
    tag.round = round;
    return tag;
  }
  comm::Communicator& group_;
  net::Tag tag_;
  Neighbours neighbours_;
  double share_ = 0;
  std::vector<double> weights_;
  std::deque<net::RecvOp> receives_;
  std::deque<net::SendOp> sends_;
};

class Gossip final : public Topology, public Stateful {
 public:
  Gossip(comm::Communicator& group, TopologyContext context)
      : group_(group), graph_(find_graph(context.level.graph, context.graphs)), seed_(context.seed) {}

  Range owned(Range range) const override { return range; }

  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override {
    auto [found, first] = weights_.try_emplace({transfer.unit, transfer.lane}, 1.0);
    double& weight = found->second;
    if (first && keeps_weights()) {
      comm::ExchangeKernel reading(group_, read_kernel(transfer.range, &weight));
      co_await reading.finished();
    }
    Neighbours neighbours = graph_.at(group_.rank(), group_.size(), transfer.turn(), seed_);
    const double share = weight / static_cast<double>(neighbours.to.size() + 1);
    const View data = values.bytes(transfer.range);
    const comm::Call call{data, values.type(), transfer.unit, transfer.lane};
    comm::TraceScope recorded(group_, "gossip", call);
    net::Tag tag = group_.begin(net::Operation::Reduce, transfer.unit, transfer.lane);
    comm::ExchangeKernel scaling(group_, scale_kernel(values.type(), data, share));
    co_await scaling.finished();
    comm::Scratch scratch(group_.scratch(), neighbours.from.size() * data.size(), data);
    std::vector<View> places;
    for (std::size_t i = 0; i < neighbours.from.size(); ++i)
      places.push_back(scratch.bytes().slice(i * data.size(), data.size()));
    Round round(group_, tag, std::move(neighbours));
    round.start(data, values.type(), share, places);
    auto messages = round.all();
    co_await comm::settle(group_.runtime().pending(), std::move(messages));
    for (View place : places) {
      comm::ExchangeKernel adding(group_, comm::sum_kernel(values.type(), data, {ConstView(place)}));
      co_await adding.finished();
    }
    weight = share + round.received();
    if (graph_.balanced && std::abs(weight - 1) > 1e-6)  // more than sums round
      throw Error(
          ErrorKind::Mismatch,
          fmt::format("graph {} says that it is balanced, but a member's weight became {}: a neighbour "
                      "sent another share than its own, or the graph's row is wrong",
                      graph_.name, weight));
    if (keeps_weights()) {
      dispatch(beyond_one_.type(), [&weight](auto zero) {
        // As checkpoints keep it, so that a run that resumes goes on with the same.
        if constexpr (std::is_floating_point_v<decltype(zero)>)
          weight = 1 + static_cast<double>(static_cast<decltype(zero)>(weight - 1));
      });
      comm::ExchangeKernel keeping(group_, keep_kernel(transfer.range, weight));
      co_await keeping.finished();
    }
    co_return weight;
  }

  task::Task<void> spread(LevelTransfer, const tensor::Arena&) override { co_return; }
  task::Task<double> total(double mine, std::uint16_t) override { co_return mine; }

  Stateful* stateful() override { return graph_.balanced ? nullptr : this; }
  void prepare(const tensor::Arena& like, std::span<const tensor::Slot>) override {
    beyond_one_ = tensor::Arena(like.type(), like.size(), like.bytes());
  }
  std::vector<StateArena> state() const override {
    if (beyond_one_.size() == 0) return {};
    return {{"weights", &beyond_one_}};
  }

 private:
  bool keeps_weights() const { return beyond_one_.size() > 0; }
  /// What lies between tensors is zero, whatever the weight.
  tensor::Kernel read_kernel(Range range, double* weight) const {
    return {"weight", {0, beyond_one_.bytes(range).size()}, [this, range, weight](tensor::Milestones&) {
              dispatch(beyond_one_.type(), [&](auto zero) {
                using T = decltype(zero);
                if constexpr (std::is_floating_point_v<T>)
                  for (T beyond : beyond_one_.values<T>(range))
                    if (beyond != 0) *weight = 1 + static_cast<double>(beyond);
              });
            }};
  }
  tensor::Kernel keep_kernel(Range range, double weight) const {
    return {"weight", {0, beyond_one_.bytes(range).size()}, [this, range, weight](tensor::Milestones&) {
              dispatch(beyond_one_.type(), [&](auto zero) {
                using T = decltype(zero);
                if constexpr (std::is_floating_point_v<T>)
                  for (T& beyond : beyond_one_.values<T>(range)) beyond = static_cast<T>(weight - 1);
              });
            }};
  }

  comm::Communicator& group_;
  const GraphRow& graph_;
  const std::uint64_t seed_;
  std::map<std::pair<std::uint32_t, std::uint16_t>, double> weights_;  // of push-sum, by unit
  tensor::Arena beyond_one_;  // of a graph that is not balanced: weight - 1 of each element's unit
};

std::unique_ptr<Topology> make(comm::Communicator& group, TopologyContext context) {
  return std::make_unique<Gossip>(group, context);
}

double sent(const plan::LevelPlan& plan, std::size_t bytes, const LevelShape& shape, const Extensions& own) {
  // Every member has as many neighbours as every other, or one of them pauses.
  std::size_t messages = 0;
  for (int member = 0; member < shape.size; ++member)
    messages += find_graph(plan.graph, own.graphs).at(member, shape.size, 0, 0).to.size();
  return static_cast<double>(messages) / shape.size * static_cast<double>(bytes + sizeof(double));
}

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels", "topology gossip needs rule average, since nobody owns what a rule would keep",
     [](const plan::LegalityInput& c, const plan::LevelPlan& level) {
       return plan::unless(only_averages(c, level), "rule is " + level.rule);
     }},
    {"exchange.levels",
     "a graph whose members hear from more or fewer than they send to needs inner_state keep or reset, since "
     "weights are kept for what replicas hand in alone",
     [](const plan::LegalityInput& c, const plan::LevelPlan& level) {
       const plan::Catalogue::Graph* graph = c.known.find_graph(level.graph);
       return plan::unless(level.inner_state != plan::InnerState::Average || !graph || graph->balanced,
                           fmt::format("graph is {}, inner_state is average", level.graph));
     }},
};

}  // namespace

/// Nobody owns anything: in each round every member keeps an equal share of what it has and sends the others
/// to its neighbours of the level's graph, the weight with it (push-sum: Kempe, Dobra, Gehrke, FOCS 2003), so
/// that the sum of the weights over the members stays their number.
TopologyRow gossip() {
  return {.name = "gossip",
          .make = make,
          .reduce = net::Operation::User,
          .spread = net::Operation::User,
          .owned = [](std::size_t count, int) { return count; },
          .sent = sent,
          .has_graph = true,
          .sentence = "nobody owns anything: each mixes with its neighbours of the level's graph",
          .mixing = "synchronous",
          .rules = kRules};
}

}  // namespace taxon::exchange
