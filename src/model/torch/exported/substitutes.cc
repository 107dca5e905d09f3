#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "model/torch/exported/operators.h"

namespace taxon::model::exported {
namespace {

using torch::jit::Stack;

/// softmax(Q K^T scale + mask) V, as its page of PyTorch writes it down.
at::Tensor attention(const at::Tensor& query, at::Tensor key, at::Tensor value, const at::Tensor& mask,
                     double dropout, bool is_causal, double scale, bool grouped) {
  if (grouped) {
    key = key.repeat_interleave(query.size(-3) / key.size(-3), -3);
    value = value.repeat_interleave(query.size(-3) / value.size(-3), -3);
  }
  at::Tensor scores = query.matmul(key.transpose(-2, -1)) * scale;
  const double never = -std::numeric_limits<double>::infinity();
  at::Tensor seen;
  if (is_causal) seen = at::ones({query.size(-2), key.size(-2)}, query.options().dtype(at::kBool)).tril();
  const bool is_choice = mask.defined() && mask.scalar_type() == at::kBool;
  if (is_choice) seen = mask;
  if (mask.defined() && !is_choice) scores = scores + mask;
  if (seen.defined()) scores = scores.masked_fill(seen.logical_not(), never);
  at::Tensor weights = scores.softmax(-1);
  if (dropout > 0) weights = at::dropout(weights, dropout, /*train=*/true);
  return weights.matmul(value);
}

constexpr OwnOperator kSubstitutes[] = {
    {"torch.ops.aten.scaled_dot_product_attention.default",
     "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
     "float "
     "dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     [](Stack& stack) {
       const auto arguments = torch::jit::last(stack, 8);
       const at::Tensor query = arguments[0].toTensor();
       const at::Tensor mask = arguments[3].isNone() ? at::Tensor() : arguments[3].toTensor();
       const double usual = 1 / std::sqrt(static_cast<double>(query.size(-1)));
       at::Tensor result =
           attention(query, arguments[1].toTensor(), arguments[2].toTensor(), mask, arguments[4].toDouble(),
                     arguments[5].toBool(), arguments[6].isNone() ? usual : arguments[6].toDouble(),
                     arguments[7].toBool());
       torch::jit::drop(stack, 8);
       stack.emplace_back(std::move(result));
     }},
};

}  // namespace

std::span<const OwnOperator> substitute_operators() { return kSubstitutes; }

}  // namespace taxon::model::exported
