#include "train/start/layout.h"

#include "exchange/layout/shard.h"
#include "exchange/levels/algorithm_selection.h"
#include "train/start/summands.h"
#include "train/state/state.h"

namespace taxon::train {

std::vector<int> backwards(const model::ModelSpec& spec) {
  std::vector<int> order;
  for (std::size_t p = spec.parameters.size(); p-- > 0;)
    if (spec.parameters[p].trainable) order.push_back(static_cast<int>(p));
  return order;
}

std::vector<exchange::Tensor> tensors_of(const model::ModelSpec& spec, const std::vector<int>& parameters,
                                         bool in_parts) {
  std::vector<exchange::Tensor> tensors;
  for (int p : parameters) {
    const model::ParameterSpec& parameter = spec.parameters[static_cast<std::size_t>(p)];
    const int segment = spec.segment_of(p);
    const std::vector<int> borrowers = spec.borrowers_of(p);
    int apart = bucket_class(spec, p);
    if (in_parts) {
      const int readers =
          segment + (borrowers.empty() ? 0 : static_cast<int>(spec.segments.size()) * (p + 1));
      apart += readers * bucket_classes(spec);
    }
    tensors.push_back({parameter.name, parameter.shape, segment, parameter.linear, 0, apart, borrowers});
  }
  return tensors;
}

std::vector<plan::BucketPlan> cut_buckets(const model::ModelSpec& spec, const std::vector<int>& parameters,
                                          const plan::Plan& plan, exchange::FactorGroup factors,
                                          const exchange::Extensions& own) {
  const bool in_parts = exchange::gathered_ahead(plan.exchange.levels, own).has_value();
  std::vector<exchange::Tensor> tensors = tensors_of(spec, parameters, in_parts);
  exchange::choose_factors(tensors, plan, factors);
  return exchange::cut_buckets(tensors, plan,
                               exchange::slices_for(optim::find_rule(plan.optimiser.rule, own.rules)));
}

exchange::Layout lay_out(const plan::Plan& plan, const model::ModelSpec& spec, const exchange::Levels& levels,
                         const exchange::Extensions& own) {
  const auto& buckets = plan.resolved.buckets;
  auto layout = exchange::lay_out(trainable(spec), buckets, plan.precision.master);
  for (std::size_t b = 0; b < layout.buckets.size(); ++b)
    layout.buckets[b].rows = exchange::rows_of(buckets[b], plan.exchange.levels, own);
  if (levels.size() > 0)
    exchange::lay_out_factors(layout, buckets, levels.group(0).size(), levels.group(0).rank());
  exchange::own(layout, levels);
  const int segments = static_cast<int>(spec.segments.size());
  const auto ahead = exchange::gathered_ahead(plan.exchange.levels, own);
  if (ahead) exchange::keep_parts(layout, segments, *ahead);
  if (plan.exchange.gradients == plan::GradientMemory::Ring) {
    if (!ahead && !spec.divisible)
      throw Error(ErrorKind::Usage,
                  "exchange.gradients: ring needs a model whose backward pass can be taken "
                  "in pieces, and " +
                      spec.name + " has only one; use whole");
    exchange::lay_out_ring(layout, segments, plan.exchange.in_flight);
  }
  return layout;
}

}  // namespace taxon::train
