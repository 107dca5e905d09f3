#include "model/torch/exported/split_trial.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <exception>

#include "model/torch/splitter.h"

namespace taxon::model::exported {
namespace {

constexpr int kSamples = 2;
constexpr double kTolerance = 1e-9;

/// Numbers that differ from place to place; words that every vocabulary has.
at::Tensor any_like(const at::Tensor& tensor) {
  const at::Tensor values =
      (at::arange(tensor.numel(), at::kDouble) * 0.7 + 0.3).sin().reshape(tensor.sizes());
  return tensor.is_floating_point() ? values : values.gt(0).to(tensor.scalar_type());
}

at::Tensor in_double(const at::Tensor& tensor) {
  return tensor.is_floating_point() ? tensor.detach().to(at::kDouble) : tensor.detach();
}

}  // namespace

SplitTrial::SplitTrial(const Interpreter& program, at::ScalarType exported, const std::vector<Stored>& stored,
                       int members)
    : program_(program), stored_(stored), members_(members) {
  program_.compute_in(exported, at::kDouble);
}

std::string SplitTrial::refusal(const Interpreter::Stage& stage, const parallel::SplitRow& row,
                                const at::Tensor& inputs) const {
  const Interpreter::Part& part = row.output == parallel::kPartial ? stage.layer : stage.all;
  if (part.instructions.empty()) return "more than its layer's outputs goes on behind it";
  if (row.by_samples() && program_.changes_stored(part))
    return "it keeps statistics of its samples, of which a member would see some alone";
  if (std::string why = uneven(part, row, inputs); !why.empty()) return why;
  return adds_up(part, row, inputs) ? "" : "what members would make of their parts is not the whole";
}

std::string SplitTrial::uneven(const Interpreter::Part& part, const parallel::SplitRow& row,
                               const at::Tensor& inputs) const {
  const auto shared = [&](std::int64_t extent, const char* what) {
    return extent % members_ == 0
               ? ""
               : fmt::format("it has {} {}, which {} members can't share equally", extent, what, members_);
  };
  for (const std::uint32_t i : part.stored) {
    const auto& [tensor, kind] = stored_[i];
    const int dimension = cut_dimension(tensor, row);
    const bool is_whole = dimension < 0 && (row.output != parallel::kPartial || tensor.dim() != 1);
    if (kind == Kind::Parameter && row.divides_weights && is_whole)
      return "not all of its parameters would have parts";
    if (kind == Kind::Constant || dimension < 0) continue;
    if (std::string why = shared(tensor.size(dimension), dimension == 0 ? "outputs" : "inputs"); !why.empty())
      return why;
  }
  if (row.input != parallel::kByFeatures) return "";
  return inputs.dim() < 2 ? "it takes no features" : shared(inputs.size(1), "features");
}

int SplitTrial::sharers(const parallel::SplitRow& row) const {
  return row.by_samples() ? kSamples : members_;
}

at::Tensor SplitTrial::share(const Interpreter::Part& part, const parallel::SplitRow& row,
                             const at::Tensor& inputs, int member) const {
  std::vector<at::Tensor> stored(stored_.size());
  at::Tensor bias;
  for (const std::uint32_t i : part.stored) {
    const auto& [tensor, kind] = stored_[i];
    // Buffers are the trial's own, since they may be written to.
    stored[i] = kind == Kind::Parameter ? 0.5 * any_like(tensor) : in_double(tensor).clone();
    const int dimension = kind == Kind::Constant ? -1 : cut_dimension(tensor, row);
    if (dimension >= 0)
      stored[i] = part_of({stored[i], dimension, 1}, {.members = members_, .member = member});
    else if (kind == Kind::Parameter && row.output == parallel::kPartial)
      bias = stored[i];
  }
  const int dimension = row.by_samples() ? 0 : row.input == parallel::kByFeatures ? 1 : -1;
  const at::Tensor own =
      dimension < 0 ? inputs : inputs.chunk(sharers(row), dimension)[static_cast<std::size_t>(member)];
  const std::vector<at::Tensor> taken = {own.contiguous()};
  return with_bias_once(program_.run(part, stored, taken, Mode::Train)[0], bias, member);
}

bool SplitTrial::adds_up(const Interpreter::Part& part, const parallel::SplitRow& row,
                         const at::Tensor& inputs) const {
  at::NoGradGuard no_grad;
  const at::Tensor values = any_like(inputs);
  try {
    const at::Tensor whole = share(part, parallel::find_split("none"), values, 0);
    std::vector<at::Tensor> shares;
    for (int member = 0; member < sharers(row); ++member) shares.push_back(share(part, row, values, member));
    const at::Tensor made = row.output == parallel::kPartial ? at::stack(shares).sum(0)
                                                             : at::cat(shares, row.by_samples() ? 0 : 1);
    if (made.sizes() != whole.sizes()) return false;
    const double largest = whole.abs().max().item<double>();
    return largest > 0 && (made - whole).abs().max().item<double>() <= kTolerance * largest;
  } catch (const std::exception&) {
    return false;  // an operator that does not take parts
  }
}

}  // namespace taxon::model::exported
