#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "model/torch/exported/operators.h"

namespace taxon::model::exported {
namespace {

using c10::IValue;
using torch::jit::Stack;

double real(const IValue& number) {
  return number.isInt()    ? static_cast<double>(number.toInt())
         : number.isBool() ? static_cast<double>(number.toBool())
                           : number.toDouble();
}
std::int64_t whole(const IValue& number) {
  return number.isBool() ? static_cast<std::int64_t>(number.toBool()) : number.toInt();
}
bool are_whole(const IValue& a, const IValue& b) { return !a.isDouble() && !b.isDouble(); }

/// As Python's, towards minus infinity.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min()))
    throw std::domain_error("a division by zero, or too large");
  return a / b - static_cast<std::int64_t>(a % b != 0 && (a < 0) != (b < 0));
}

/// Puts f(a, b) in the place of the stack's last two numbers, in whole numbers where both are.
template <class Whole, class Real>
void combine(Stack& stack, const Whole& of_whole, const Real& of_real) {
  const IValue b = torch::jit::pop(stack), a = torch::jit::pop(stack);
  if (are_whole(a, b))
    stack.emplace_back(of_whole(whole(a), whole(b)));
  else
    stack.emplace_back(of_real(real(a), real(b)));
}
template <class Operation>
void combine(Stack& stack) {
  combine(stack, Operation(), Operation());
}

constexpr OwnOperator kSymbolic[] = {
    {"torch.ops.aten.sym_size.int", "aten::sym_size.int(Tensor self, int dim) -> int",
     [](Stack& stack) {
       const std::int64_t dimension = torch::jit::pop(stack).toInt();
       const at::Tensor tensor = torch::jit::pop(stack).toTensor();
       stack.emplace_back(tensor.size(dimension));
     }},
    {"torch.ops.aten.sym_numel.default", "aten::sym_numel(Tensor self) -> int",
     [](Stack& stack) { stack.emplace_back(torch::jit::pop(stack).toTensor().numel()); }},
    {"_operator.add", "_operator::add(Scalar a, Scalar b) -> Scalar", combine<std::plus<>>},
    {"_operator.sub", "_operator::sub(Scalar a, Scalar b) -> Scalar", combine<std::minus<>>},
    {"_operator.mul", "_operator::mul(Scalar a, Scalar b) -> Scalar", combine<std::multiplies<>>},
    {"_operator.floordiv", "_operator::floordiv(Scalar a, Scalar b) -> Scalar",
     [](Stack& stack) {
       combine(stack, floor_divide, [](double a, double b) { return std::floor(a / b); });
     }},
    {"_operator.mod", "_operator::mod(Scalar a, Scalar b) -> Scalar",
     [](Stack& stack) {
       combine(
           stack, [](std::int64_t a, std::int64_t b) { return a - b * floor_divide(a, b); },
           [](double a, double b) { return a - b * std::floor(a / b); });
     }},
    {"_operator.truediv", "_operator::truediv(Scalar a, Scalar b) -> float",
     [](Stack& stack) {
       const double b = real(torch::jit::pop(stack)), a = real(torch::jit::pop(stack));
       stack.emplace_back(a / b);
     }},
    {"_operator.neg", "_operator::neg(Scalar a) -> Scalar",
     [](Stack& stack) {
       stack.emplace_back(std::int64_t{-1});
       combine<std::multiplies<>>(stack);
     }},
    {"_operator.eq", "_operator::eq(Scalar a, Scalar b) -> bool", combine<std::equal_to<>>},
    {"_operator.ne", "_operator::ne(Scalar a, Scalar b) -> bool", combine<std::not_equal_to<>>},
    {"_operator.lt", "_operator::lt(Scalar a, Scalar b) -> bool", combine<std::less<>>},
    {"_operator.le", "_operator::le(Scalar a, Scalar b) -> bool", combine<std::less_equal<>>},
    {"_operator.gt", "_operator::gt(Scalar a, Scalar b) -> bool", combine<std::greater<>>},
    {"_operator.ge", "_operator::ge(Scalar a, Scalar b) -> bool", combine<std::greater_equal<>>},
    {"_operator.and_", "_operator::and_(bool a, bool b) -> bool", combine<std::logical_and<>>},
    {"_operator.or_", "_operator::or_(bool a, bool b) -> bool", combine<std::logical_or<>>},
    {"torch.sym_not", "torch::sym_not(bool a) -> bool",
     [](Stack& stack) { stack.emplace_back(!torch::jit::pop(stack).toBool()); }},
    {"torch.sym_max", "torch::sym_max(Scalar a, Scalar b) -> Scalar",
     [](Stack& stack) {
       const auto larger = [](auto a, auto b) { return std::max(a, b); };
       combine(stack, larger, larger);
     }},
    {"torch.sym_min", "torch::sym_min(Scalar a, Scalar b) -> Scalar",
     [](Stack& stack) {
       const auto smaller = [](auto a, auto b) { return std::min(a, b); };
       combine(stack, smaller, smaller);
     }},
    {"torch.sym_float", "torch::sym_float(Scalar a) -> float",
     [](Stack& stack) { stack.emplace_back(real(torch::jit::pop(stack))); }},
    {"math.trunc", "math::trunc(Scalar x) -> int",
     [](Stack& stack) {
       stack.emplace_back(static_cast<std::int64_t>(std::trunc(real(torch::jit::pop(stack)))));
     }},
    {"torch.ops.aten._assert_scalar.default", "aten::_assert_scalar(Scalar self, str assert_msg) -> ()",
     [](Stack& stack) {
       const std::string message = torch::jit::pop(stack).toStringRef();
       if (!whole(torch::jit::pop(stack))) throw std::runtime_error(message);
     }},
};

}  // namespace

std::span<const OwnOperator> symbolic_operators() { return kSymbolic; }

}  // namespace taxon::model::exported
