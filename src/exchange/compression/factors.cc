#include "exchange/compression/factors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "codec/outer_products.h"
#include "comm/kernels.h"

namespace taxon::exchange {
namespace {

// Products are cut so that the communication thread polls at least every few hundred microseconds.
constexpr double kProductFlops = 8e6;
constexpr std::size_t kColumns = 64;  // the least, and what a cut is a multiple of

bool wants(const plan::Plan& plan) {
  return !plan.exchange.levels.empty() && plan.exchange.levels.front().factors != plan::FactorUse::None;
}

FactorCase case_of(const Tensor& tensor, const plan::Plan& plan, FactorGroup group) {
  return {tensor.shape.at(0), tensor.shape.at(1), plan::largest_share(plan, group.world_size), group.members};
}

std::int64_t bytes_of(const FactorCase& factors, const plan::Plan& plan) {
  return factors.rows * (factors.outputs + factors.inputs) *
         static_cast<std::int64_t>(size_of(plan.precision.master));
}

/// "factors: fc1.weight, 32 samples x (1024 + 3136) to 3 others: 1.52 MiB in place of 18.38 MiB".
std::string reason(const Tensor& tensor, const FactorCase& factors, bool chosen, double element) {
  const auto text = [&](double numbers) { return format_bytes(numbers * element); };
  const std::string ways = fmt::format("{} samples x ({} + {}) to {} others: ", factors.rows, factors.outputs,
                                       factors.inputs, factors.members - 1);
  return chosen ? fmt::format("factors: {}, {}{} in place of {}", tensor.name, ways,
                              text(factors.as_factors()), text(factors.as_sum()))
                : fmt::format("dense: {}, {}; factors of {}{}", tensor.name, text(factors.as_sum()), ways,
                              text(factors.as_factors()));
}

/// Null: no linear layer's weight has that name.
const Tensor* find_linear(const std::vector<Tensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&name](const Tensor& t) { return t.linear && t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

tensor::Kernel product_kernel(const LevelTransfer& transfer, const tensor::Arena* sums, Range columns) {
  const SufficientFactors& factors = *transfer.factors;
  const codec::OuterShape shape{factors.members, factors.rows, factors.outputs, factors.inputs};
  const std::size_t samples = factors.members * factors.rows;
  tensor::Kernel kernel;
  kernel.name = "factors";
  kernel.cost = {
      2.0 * static_cast<double>(samples * factors.outputs * columns.size),
      size_of(sums->type()) * (samples * (factors.outputs + columns.size) + factors.outputs * columns.size)};
  kernel.body = [shape, columns, sums, arena = transfer.factor_arena, all = factors.all,
                 begin = transfer.range.begin](tensor::Milestones&) {
    const Range sum{begin, shape.outputs * shape.inputs};
    auto multiply = [&](auto zero) {
      using T = decltype(zero);
      codec::sum_outer_products(std::span<const T>(arena->values<T>(all)), shape, columns,
                                sums->values<T>(sum));
    };
    if (sums->type() == DType::Float64)
      multiply(double());
    else
      multiply(float());
  };
  return kernel;
}

/// Columns at a time.
std::size_t columns_of(const SufficientFactors& factors) {
  const double each = 2.0 * static_cast<double>(factors.members * factors.rows * factors.outputs);
  const auto whole = static_cast<std::size_t>(kProductFlops / std::max(1.0, each)) / kColumns * kColumns;
  return std::max(kColumns, whole);
}

}  // namespace

void choose_factors(std::vector<Tensor>& tensors, const plan::Plan& plan, FactorGroup group) {
  if (!wants(plan)) return;
  for (Tensor& tensor : tensors) {
    if (!tensor.linear) continue;
    const FactorCase factors = case_of(tensor, plan, group);
    if (factors.pays() || plan.exchange.levels.front().factors == plan::FactorUse::Always)
      tensor.factors = bytes_of(factors, plan);
  }
}

void size_factors(plan::Plan& plan, const std::vector<Tensor>& tensors, FactorGroup group) {
  for (plan::BucketPlan& bucket : plan.resolved.buckets) {
    if (bucket.factors == 0) continue;
    const Tensor* tensor = wants(plan) ? find_linear(tensors, bucket.parameters.front()) : nullptr;
    bucket.factors = tensor ? bytes_of(case_of(*tensor, plan, group), plan) : 0;
  }
}

void explain_factors(plan::Plan& plan, const std::vector<Tensor>& tensors, FactorGroup group) {
  if (!wants(plan)) return;
  const bool always = plan.exchange.levels.front().factors == plan::FactorUse::Always;
  const auto element = static_cast<double>(size_of(plan.precision.master));
  for (plan::BucketPlan& bucket : plan.resolved.buckets)
    for (const std::string& name : bucket.parameters) {
      const Tensor* tensor = find_linear(tensors, name);
      if (!tensor || bucket.part > 0) continue;
      const FactorCase factors = case_of(*tensor, plan, group);
      const bool chosen = bucket.factors > 0;
      std::string why = reason(*tensor, factors, chosen, element);
      if (chosen != (always || factors.pays())) why += "; so it was when the run began";
      bucket.reasons.push_back(std::move(why));
    }
}

std::string describe_factors(const plan::Plan& plan) {
  if (!wants(plan)) return "";
  std::vector<std::string> names;
  for (const plan::BucketPlan& bucket : plan.resolved.buckets)
    if (bucket.factors > 0) names.push_back(bucket.parameters.front());
  return names.empty() ? "level 0: no layer's gradient travels as sufficient factors"
                       : fmt::format("level 0: as sufficient factors travel the gradients of {}",
                                     fmt::join(names, ", "));
}

void lay_out_factors(Layout& layout, const std::vector<plan::BucketPlan>& buckets, int members, int rank) {
  tensor::ArenaLayout places(layout.arena.type());
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (buckets[b].factors == 0) continue;
    Bucket& bucket = layout.buckets[b];
    const auto& slots = layout.arena.slots();
    const auto slot = std::find_if(slots.begin(), slots.end(), [&](const tensor::Slot& s) {
      return s.range.begin == bucket.range.begin;
    });
    if (slot == slots.end() || slot->shape.size() != 2 || buckets[b].parts != 1)
      throw Error(ErrorKind::Mismatch,
                  plan::describe(buckets[b]) +
                      " has no sufficient factors: the recording "
                      "belongs to another model",
                  {{}, "", buckets[b].parameters.front()});
    SufficientFactors& factors = bucket.factors;
    factors.outputs = static_cast<std::size_t>(slot->shape[0]);
    factors.inputs = static_cast<std::size_t>(slot->shape[1]);
    factors.rows = static_cast<std::size_t>(buckets[b].factors) / size_of(layout.arena.type()) /
                   (factors.outputs + factors.inputs);
    factors.members = static_cast<std::size_t>(members);
    factors.all = places.add(slot->name, {members, static_cast<std::int64_t>(factors.block())});
    factors.own = {factors.all.begin + static_cast<std::size_t>(rank) * factors.block(), factors.block()};
  }
  layout.factors = places.size();
}

task::Task<void> sum_factors(comm::Communicator* group, LevelTransfer transfer, const tensor::Arena* sums,
                             CodecWork* work) {
  comm::Runtime& runtime = group->runtime();
  const SufficientFactors& factors = *transfer.factors;
  if (group->size() > 1) {
    const comm::Call call{transfer.factor_arena->bytes(factors.all), transfer.factor_arena->type(),
                          transfer.unit, transfer.lane};
    co_await row_for(net::Operation::AllGather, group->size(), call.data.size()).run(*group, call);
  }
  const std::size_t step = columns_of(factors);
  for (std::size_t begin = 0; begin < factors.inputs; begin += step) {
    tensor::Kernel kernel = product_kernel(transfer, sums, {begin, std::min(step, factors.inputs - begin)});
    comm::Span span{"exchange",        "factors", static_cast<std::int64_t>(transfer.unit),
                    kernel.cost.bytes, {},        {}};
    comm::ExchangeKernel product(*group, std::move(kernel));
    auto end = product.finished();
    co_await end;
    span.begin = product.since();
    span.end = runtime.executor().now();
    work->decode += span.end - span.begin;
    runtime.recorder.add(span);
    task::Yield others(runtime.executor());
    co_await others;
  }
}

}  // namespace taxon::exchange
