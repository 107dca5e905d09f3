#include <fmt/format.h>

#include "exchange/compression/coded.h"
#include "exchange/levels/topology.h"
#include "plan/field.h"
#include "plan/legality.h"

namespace taxon::exchange {

/// Which parameters a member has between uses.
enum class ParameterMemory { Whole, Sharded };

}  // namespace taxon::exchange

template <>
struct taxon::plan::Words<taxon::exchange::ParameterMemory> {
  static constexpr std::string_view all[] = {"whole", "sharded"};
};

namespace taxon::exchange {
namespace {

struct ShardedOptions {
  ParameterMemory parameters = ParameterMemory::Whole;
  int prefetch = 1;
};
template <plan::Like<ShardedOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{.key = "parameters",
                  .sentence =
                      "sharded: between uses a rank keeps its parts of the parameters alone (ZeRO-3, FSDP); "
                      "each segment's are gathered before its forward and its backward pass."},
      o.parameters);
  visit(plan::Field{.key = "prefetch",
                    .sentence = "Segments whose sharded parameters are gathered while one is computed.",
                    .min = 0,
                    .max = 64},
        o.prefetch);
}

std::optional<int> ahead(const plan::LevelPlan& level) {
  const auto options = level.options.read<ShardedOptions>();
  if (options.parameters == ParameterMemory::Whole) return {};
  return options.prefetch;
}

plan::Violation sharded_everywhere(const plan::LegalityInput& c, const plan::LevelPlan& level) {
  if (!ahead(level)) return {};
  for (const plan::LevelPlan& other : c.plan.exchange.levels)
    if (c.known.sum_at(other) == plan::SumAt::Parts && !c.known.shards_parameters(other))
      return fmt::format("that over {} has not", plan::to_string(other.group));
  return {};
}

plan::Violation sharded_in_step(const plan::LegalityInput& c, const plan::LevelPlan& level) {
  if (!ahead(level)) return {};
  const plan::Plan& plan = c.plan;
  if (plan.exchange.delay > 0) return fmt::format("exchange.delay is {}", plan.exchange.delay);
  for (const plan::LevelPlan& other : plan.exchange.levels) {
    if (other.rule != "sum") return fmt::format("replicas meet by rule {}", other.rule);
    if (other.factors != plan::FactorUse::None)
      return fmt::format("factors is {}", plan::to_string(other.factors));
    const plan::SumAt sum = c.known.sum_at(other);
    if (sum != plan::SumAt::Everyone && sum != plan::SumAt::Parts) return "topology is " + other.topology;
  }
  return {};
}

/// A stage is computed again as a whole, and versions are of whole stages.
plan::Violation sharded_by_segments(const plan::LegalityInput& c, const plan::LevelPlan& level) {
  if (!ahead(level)) return {};
  if (c.plan.pipeline.activations == plan::Activations::Recomputed)
    return "pipeline.activations is recomputed";
  const plan::Catalogue::Pipeline* row = c.known.find_pipeline(c.plan.pipeline.schedule);
  return plan::unless(c.plan.mesh.pipeline == 1 || !row || row->flushes,
                      "pipeline.schedule is " + c.plan.pipeline.schedule);
}

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels", "parameters: sharded must be said of every level whose topology is sharded",
     sharded_everywhere},
    {"exchange.levels",
     "parameters: sharded needs sums of gradients on every level, without delay, factors and servers",
     sharded_in_step},
    {"exchange.levels",
     "parameters: sharded, which has the parameters of a stage segment by segment, needs "
     "pipeline.activations kept and a schedule of one update a step",
     sharded_by_segments},
};

class Sharded final : public Topology {
 public:
  explicit Sharded(comm::Communicator& group) : group_(group) {}

  bool spreads() const override { return group_.size() > 1; }
  Range owned(Range range) const override {
    return part(range, static_cast<std::size_t>(group_.size()), static_cast<std::size_t>(group_.rank()));
  }

  task::Task<double> reduce(LevelTransfer transfer, const tensor::Arena& values) override {
    if (group_.size() == 1) co_return 1;
    comm::Call call{values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane,
                    transfer.precedence};
    co_await transfer.rows.reduce->run(group_, call);
    co_return group_.size();
  }

  task::Task<void> spread(LevelTransfer transfer, const tensor::Arena& values) override {
    if (group_.size() == 1) co_return;
    comm::Call call{values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane,
                    transfer.precedence};
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
/// optimiser's state. With `parameters: sharded` (its stage 3; Zhao et al., PyTorch FSDP, VLDB 2023, arXiv
/// 2304.11277) nothing is spread after an update: exchange::Gathering asks for values when they are used.
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
          .optimisation = "sharded",
          .options = plan::option_keys<ShardedOptions>,
          .rules = kRules,
          .gathered_ahead = ahead};
}

}  // namespace taxon::exchange
