#include "train/state/state.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "model/memory_order.h"
#include "train/start/layout.h"

namespace taxon::train {
namespace {

std::vector<Range> decayed_ranges(const tensor::ArenaLayout& layout, const plan::OptimiserPlan& plan) {
  std::vector<Range> ranges;
  if (plan.weight_decay == 0) return ranges;
  for (const tensor::Slot& slot : layout.slots())
    if (plan.decay_all || slot.shape.size() > 1) ranges.push_back(slot.range);
  return ranges;
}

/// Of ranges of the weights what this rank has of them, where it lies.
std::vector<Range> kept_of(const std::vector<Range>& ranges, const exchange::Layout& layout) {
  std::vector<Range> kept;
  for (const exchange::Bucket& bucket : layout.buckets)
    for (Range range : ranges) {
      const std::size_t begin = std::max(range.begin, bucket.owned.begin);
      const std::size_t end = std::min(range.end(), bucket.owned.end());
      if (begin < end) kept.push_back({bucket.kept.begin + (begin - bucket.owned.begin), end - begin});
    }
  std::sort(kept.begin(), kept.end(), [](Range a, Range b) { return a.begin < b.begin; });
  return kept;
}

/// Where a rule that asks finds tensors.
std::vector<Range> tensor_ranges(const tensor::ArenaLayout& layout, const optim::RuleRow& row) {
  std::vector<Range> ranges;
  if (row.by_tensor)
    for (const tensor::Slot& slot : layout.slots()) ranges.push_back(slot.range);
  return ranges;
}

std::vector<std::byte> copy_bytes(ConstView view) { return {view.data(), view.data() + view.size()}; }

}  // namespace

std::vector<exchange::Tensor> trainable(const model::ModelSpec& spec) {
  std::vector<int> parameters = backwards(spec);
  std::reverse(parameters.begin(), parameters.end());
  return tensors_of(spec, parameters, false);
}

State::State(net::Transport& transport, const plan::Plan& plan, exchange::Layout layout,
             const model::ModelSpec& spec, std::span<const optim::RuleRow> own_rules, int versions)
    : own_rules_(own_rules),
      spec_(spec),
      layout_(std::move(layout)),
      births_(plan.transport.trace_allocations ? model::Binding::Births::Placed
                                               : model::Binding::Births::Copied) {
  std::vector<int> trained;  // index among the trainable -> index into the spec
  std::size_t next = 0;
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    if (spec.parameters[i].trainable) trained.push_back(static_cast<int>(i));
    offsets_.push_back(next);
    next += static_cast<std::size_t>(spec.parameters[i].count());
  }
  for (int tensor : layout_.tensors) parameters_.push_back(trained[static_cast<std::size_t>(tensor)]);
  DType master = plan.precision.master;
  for (int flight = 0; flight <= plan.exchange.delay; ++flight)
    gradients_.emplace_back(transport, master, layout_.gradients);
  for (int flight = 0; layout_.factors > 0 && flight <= plan.exchange.delay; ++flight)
    factors_.emplace_back(transport, master, layout_.factors);
  if (in_parts()) compute_.emplace_back(transport, plan.precision.compute, layout_.gathered);
  master_ = in_parts() ? tensor::Arena(master, layout_.shard, compute_.front().bytes())
                       : tensor::Arena(transport, master, layout_.arena.size());
  if (!exchange::meeting_level(plan.exchange.levels).empty())
    handed_in_ = tensor::Arena(transport, master, layout_.arena.size());
  const View beside = master_.bytes();
  in_ring_ = plan.exchange.gradients == plan::GradientMemory::Ring;
  if (in_ring_) sums_ = tensor::Arena(master, layout_.shard, beside);
  if (!in_parts() && (versions > 1 || plan.precision.compute != master))
    for (int version = 0; version < versions; ++version)
      compute_.emplace_back(plan.precision.compute, layout_.arena.size(), beside);
  std::size_t frozen = 0;
  for_frozen([&](std::size_t, std::size_t count) { frozen += count; });
  frozen_ = tensor::Arena(DType::Float64, frozen, beside);
  const optim::RuleRow& row = optim::find_rule(plan.optimiser.rule, own_rules_);
  std::vector<Range> decayed = decayed_ranges(layout_.arena, plan.optimiser);
  if (in_parts()) decayed = kept_of(decayed, layout_);
  by_tensor_ = row.by_tensor;
  rule_ = row.make(plan.optimiser,
                   {master, layout_.shard, std::move(decayed), beside, tensor_ranges(layout_.arena, row)});
}

std::unique_ptr<optim::Rule> State::make_rule_of_all(const plan::OptimiserPlan& plan) const {
  return optim::find_rule(plan.rule, own_rules_)
      .make(plan,
            {master_.type(), layout_.arena.size(), decayed_ranges(layout_.arena, plan), master_.bytes()});
}

template <class Body>
void State::for_frozen(Body&& body) const {
  for (std::size_t p = 0; p < spec_.parameters.size(); ++p)
    if (!spec_.parameters[p].trainable)
      body(offsets_[p], static_cast<std::size_t>(spec_.parameters[p].count()));
}

exchange::Arenas State::arenas(std::size_t flight) const {
  const tensor::Arena* gradients = &gradients_[flight];
  return {gradients, in_ring_ ? &sums_ : gradients, &master_,
          compute_.size() == 1 ? &compute_.front() : &master_,
          factors_.empty() ? nullptr : &factors_[flight]};
}

std::size_t State::slot_at(std::size_t begin) const {
  const auto& slots = layout_.arena.slots();
  const auto slot = std::find_if(slots.begin(), slots.end(),
                                 [begin](const tensor::Slot& s) { return s.range.begin == begin; });
  TAXON_CHECK(slot != slots.end(), "no slot begins at ", begin);
  return static_cast<std::size_t>(slot - slots.begin());
}

model::Binding State::binding() const {
  model::Binding binding{&layout_.arena, parameters_, {}, compute_.empty() ? &master_ : &compute_.front()};
  if (compute_.size() > 1)
    for (const tensor::Arena& version : compute_) binding.versions.push_back(&version);
  binding.births = births_;
  if (in_ring_ && !in_parts()) binding.backward = model::Binding::Backward::InPieces;
  for (const exchange::Bucket& bucket : layout_.buckets)
    binding.buckets.push_back({bucket.range, bucket.gradients, bucket.gathered});
  for (const tensor::Arena& arena : gradients_) binding.gradients.push_back(&arena);
  for (const tensor::Arena& arena : factors_) binding.factors.push_back(&arena);
  for (const exchange::Bucket& bucket : layout_.buckets) {
    const exchange::SufficientFactors& factors = bucket.factors;
    if (factors.rows == 0) continue;
    const std::size_t outputs = factors.rows * factors.outputs;
    binding.factor_slots.push_back({slot_at(bucket.range.begin),
                                    factors.rows,
                                    {factors.own.begin, outputs},
                                    {factors.own.begin + outputs, factors.rows * factors.inputs}});
  }
  return binding;
}

ArenaBytes State::bytes() const {
  ArenaBytes bytes;
  for (const tensor::Arena& arena : gradients_) bytes.gradients += arena.bytes().size();
  bytes.gradients += sums_.bytes().size();
  for (const tensor::Arena& arena : factors_) bytes.gradients += arena.bytes().size();
  bytes.weights = master_.bytes().size() + handed_in_.bytes().size();
  for (const tensor::Arena& arena : compute_) bytes.weights += arena.bytes().size();
  for (const auto& [name, arena] : rule_->state()) bytes.optimiser += arena->bytes().size();
  return bytes;
}

void State::set_weights(std::span<const double> parameters, const tensor::Arena& whole) {
  for (std::size_t s = 0; s < parameters_.size(); ++s) {
    const tensor::Slot& slot = layout_.arena.slots()[s];
    auto source = parameters.subspan(offset(parameters_[s]), slot.range.size);
    dispatch(whole.type(), [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> values(source.size());
      for (std::size_t i = 0; i < source.size(); ++i)
        values[i] = T(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(source[i]));
      model::to_arena(parameter_of(s), whole.type(), as_const_view(std::span<const T>(values)),
                      whole.bytes(slot.range));
    });
  }
  std::size_t next = 0;
  for_frozen([&](std::size_t offset, std::size_t count) {
    std::copy_n(parameters.begin() + static_cast<std::ptrdiff_t>(offset), count,
                frozen_.values<double>({next, count}).begin());
    next += count;
  });
}

checkpoint::LogicalTensor State::copy_slot(const tensor::Arena& whole, std::size_t slot,
                                           std::string name) const {
  const tensor::Slot& from = layout_.arena.slots()[slot];
  const ConstView bytes = whole.bytes(from.range);
  checkpoint::LogicalTensor tensor{std::move(name), whole.type(), from.shape,
                                   std::vector<std::byte>(bytes.size())};
  model::from_arena(parameter_of(slot), whole.type(), bytes, {tensor.bytes.data(), tensor.bytes.size()});
  return tensor;
}

std::vector<double> State::parameters() const {
  if (in_parts() && frozen_.size() == 0) return {};
  std::vector<double> all(static_cast<std::size_t>(spec_.parameter_count()));
  auto place = [&](std::size_t offset) { return all.begin() + static_cast<std::ptrdiff_t>(offset); };
  for (std::size_t s = 0; !in_parts() && s < parameters_.size(); ++s)
    dispatch(master_.type(), [&](auto zero) {
      using T = decltype(zero);
      using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
      const Range range = layout_.arena.slots()[s].range;
      std::vector<T> values(range.size);
      model::from_arena(parameter_of(s), master_.type(), master_.bytes(range), as_view(std::span(values)));
      std::transform(values.begin(), values.end(), place(offset(parameters_[s])),
                     [](T value) { return static_cast<double>(static_cast<Wide>(value)); });
    });
  std::size_t next = 0;
  for_frozen([&](std::size_t offset, std::size_t count) {
    auto values = frozen_.values<double>({next, count});
    std::copy(values.begin(), values.end(), place(offset));
    next += count;
  });
  return all;
}

std::vector<checkpoint::LogicalTensor> State::weights(std::span<const double> parameters,
                                                      const tensor::Arena& whole) const {
  std::vector<std::optional<std::size_t>> slots(spec_.parameters.size());
  for (std::size_t s = 0; s < parameters_.size(); ++s) slots[static_cast<std::size_t>(parameters_[s])] = s;
  std::vector<checkpoint::LogicalTensor> tensors;
  for (std::size_t p = 0; p < spec_.parameters.size(); ++p) {
    const auto& parameter = spec_.parameters[p];
    if (slots[p]) {
      tensors.push_back(copy_slot(whole, *slots[p], parameter.name));
      continue;
    }
    auto values =
        parameters.subspan(offset(static_cast<int>(p)), static_cast<std::size_t>(parameter.count()));
    tensors.push_back({parameter.name, DType::Float64, parameter.shape,
                       copy_bytes(as_const_view(std::span<const double>(values)))});
  }
  return tensors;
}

std::vector<checkpoint::LogicalTensor> State::named(const std::string& prefix,
                                                    const tensor::Arena& whole) const {
  std::vector<checkpoint::LogicalTensor> tensors;
  for (std::size_t s = 0; s < parameters_.size(); ++s)
    tensors.push_back(copy_slot(whole, s, prefix + "/" + layout_.arena.slots()[s].name));
  return tensors;
}

bool State::holds(const std::string& prefix, const std::vector<checkpoint::LogicalTensor>& tensors,
                  const tensor::Arena& whole) const {
  std::map<std::string, std::size_t> sizes;
  for (const auto& tensor : tensors) sizes[tensor.name] = tensor.bytes.size();
  const auto& slots = layout_.arena.slots();
  return std::all_of(slots.begin(), slots.end(), [&](const tensor::Slot& slot) {
    const auto found = sizes.find(prefix + "/" + slot.name);
    return found != sizes.end() && found->second == whole.bytes(slot.range).size();
  });
}

void State::fill(const std::string& prefix, const std::vector<checkpoint::LogicalTensor>& tensors,
                 const tensor::Arena& whole) const {
  std::map<std::string, const checkpoint::LogicalTensor*> index;
  for (const auto& tensor : tensors) index[tensor.name] = &tensor;
  for (std::size_t s = 0; s < parameters_.size(); ++s) {
    const tensor::Slot& slot = layout_.arena.slots()[s];
    auto found = index.find(prefix + "/" + slot.name);
    View target = whole.bytes(slot.range);
    if (found == index.end() || found->second->bytes.size() != target.size())
      throw Error(ErrorKind::Checkpoint,
                  fmt::format("the checkpoint has no optimiser state {}/{} of this size: it was written with "
                              "another optimiser.rule or precision; resume with that one",
                              prefix, slot.name));
    model::to_arena(parameter_of(s), whole.type(), {found->second->bytes.data(), target.size()}, target);
  }
}

bool State::has_channels_last() const {
  return std::any_of(parameters_.begin(), parameters_.end(), [this](int parameter) {
    return spec_.parameters[static_cast<std::size_t>(parameter)].channels_last;
  });
}

std::vector<std::size_t> State::order() const {
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return parameters_[a] < parameters_[b]; });
  return order;
}

std::uint64_t State::hash() const {
  TensorHash hash;
  for (std::size_t slot : order()) hash.add(slot, master_.bytes(layout_.arena.slots()[slot].range));
  return hash.value();
}

TensorHash::TensorHash() : state_(XXH64_createState()) {
  XXH64_reset(static_cast<XXH64_state_t*>(state_), 0);
}
TensorHash::~TensorHash() { XXH64_freeState(static_cast<XXH64_state_t*>(state_)); }

void TensorHash::add(std::size_t slot, ConstView values) {
  auto* state = static_cast<XXH64_state_t*>(state_);
  // A tensor's hash is the seed of the next.
  if (slot_ != slot) XXH64_reset(state, value());
  slot_ = slot;
  XXH64_update(state, values.data(), values.size());
}

std::uint64_t TensorHash::value() const {
  return slot_ ? XXH64_digest(static_cast<const XXH64_state_t*>(state_)) : 0;
}

namespace {

template <class T>
std::vector<std::byte> bytes_of(std::span<const double> values) {
  std::vector<T> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(),
                 [](double value) { return static_cast<T>(value); });
  return copy_bytes(as_const_view(std::span<const T>(narrow)));
}

std::vector<std::byte> bytes_as(DType type, std::span<const double> values) {
  switch (type) {
    case DType::Float64:
      return bytes_of<double>(values);
    case DType::Int32:
      return bytes_of<std::int32_t>(values);
    case DType::Int64:
      return bytes_of<std::int64_t>(values);
    case DType::UInt8:
      return bytes_of<std::uint8_t>(values);
    default:
      TAXON_CHECK(type == DType::Float32, to_string(type));
      return bytes_of<float>(values);
  }
}

}  // namespace

std::vector<checkpoint::LogicalTensor> named_buffers(const model::ModelSpec& spec,
                                                     std::span<const double> values) {
  std::vector<checkpoint::LogicalTensor> tensors;
  for (const auto& buffer : spec.buffers) {
    const std::span<const double> own = values.first(buffer.count());
    values = values.subspan(own.size());
    if (!buffer.persistent) continue;
    tensors.push_back({buffer.name, buffer.type, buffer.shape, bytes_as(buffer.type, own), buffer.is_flags});
  }
  return tensors;
}

std::vector<double> parameters_from(const std::vector<checkpoint::LogicalTensor>& tensors,
                                    const model::ModelSpec& spec, const std::string& path) {
  std::vector<checkpoint::LogicalTensor> expected;
  for (const auto& parameter : spec.parameters)
    expected.push_back({parameter.name, DType::Float32, parameter.shape, {}});
  checkpoint::require_same_model(tensors, expected, path);
  std::map<std::string, const checkpoint::LogicalTensor*> index;
  for (const auto& tensor : tensors) index[tensor.name] = &tensor;
  std::vector<double> values;
  for (const auto& parameter : spec.parameters) {
    const auto& tensor = *index.at(parameter.name);
    if (!is_floating(tensor.type))
      throw Error(ErrorKind::Checkpoint,
                  fmt::format("{}: is damaged: {} is of type {}", path, tensor.name, to_string(tensor.type)),
                  {{}, "read checkpoint", path});
    dispatch(tensor.type, [&](auto zero) {
      using T = decltype(zero);
      ConstView bytes(tensor.bytes.data(), tensor.bytes.size());
      for (T value : as_span<T>(bytes))
        values.push_back(
            static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(value)));
    });
  }
  return values;
}

}  // namespace taxon::train
