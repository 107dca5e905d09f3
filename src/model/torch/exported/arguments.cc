#include "model/torch/exported/arguments.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <stdexcept>
#include <type_traits>
#include <utility>

#include "model/torch/exported/weights.h"

namespace taxon::model::exported {
namespace {

using c10::IValue;
using Item = ArgumentType::Item;

struct ItemRow {
  c10::TypeKind kind;
  Item item;
};

/// Element types, layouts and memory formats are numbers in a schema.
constexpr ItemRow kItems[] = {
    {c10::TypeKind::TensorType, Item::Tensor},    {c10::TypeKind::IntType, Item::Int},
    {c10::TypeKind::SymIntType, Item::Int},       {c10::TypeKind::FloatType, Item::Double},
    {c10::TypeKind::SymFloatType, Item::Double},  {c10::TypeKind::BoolType, Item::Bool},
    {c10::TypeKind::NumberType, Item::Number},    {c10::TypeKind::StringType, Item::Text},
    {c10::TypeKind::DeviceObjType, Item::Device},
};

/// c10::optional, or std::optional in newer libraries.
using OptionalTensor = decltype(std::declval<const IValue&>().toOptional<at::Tensor>());

/// The schema's numbers of memory formats, from its first one on.
constexpr at::MemoryFormat kFormats[] = {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                                         at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::Preserve};
constexpr int kStrided = 7;  // the schema's number of that layout

const c10::Type* without_optional(const c10::Type* type) {
  if (type->kind() != c10::TypeKind::OptionalType) return type;
  return type->containedType(0).get();
}

[[noreturn]] void misfit(const char* what) { throw std::invalid_argument(what); }

/// A number in the place of a tensor: of no dimension, and of a type that gives way to its partners'.
IValue wrapped(const at::Scalar& number) { return at::native::wrapped_scalar_tensor(number); }

IValue number(std::int64_t value, Item item) {
  switch (item) {
    case Item::Tensor:
      return wrapped(value);
    case Item::Int:
    case Item::Number:
      return value;
    case Item::Double:
      return static_cast<double>(value);
    case Item::Bool:
      return value != 0;
    case Item::Text:
    case Item::Device:
      break;
  }
  misfit("is a number");
}
IValue number(double value, Item item) {
  switch (item) {
    case Item::Tensor:
      return wrapped(value);
    case Item::Number:
    case Item::Double:
      return value;
    case Item::Int:
    case Item::Bool:
    case Item::Text:
    case Item::Device:
      break;
  }
  misfit("is a fraction");
}
IValue number(bool value, Item item) {
  switch (item) {
    case Item::Tensor:
      return wrapped(value);
    case Item::Number:
    case Item::Bool:
      return value;
    case Item::Int:
      return static_cast<std::int64_t>(value);
    case Item::Double:
      return static_cast<double>(value);
    case Item::Text:
    case Item::Device:
      break;
  }
  misfit("is a truth value");
}

std::int64_t code(ScalarTypeCode value) { return static_cast<std::int64_t>(scalar_type(value)); }
std::int64_t code(LayoutCode value) {
  if (static_cast<int>(value) != kStrided) misfit("is a layout other than strided");
  return static_cast<std::int64_t>(at::kStrided);
}
std::int64_t code(MemoryFormatCode value) {
  const int index = static_cast<int>(value) - 1;
  if (index < 0 || index >= static_cast<int>(std::size(kFormats))) misfit("is an unknown memory format");
  return static_cast<std::int64_t>(kFormats[index]);
}

struct Constant {
  const ArgumentType& type;

  IValue operator()(std::monostate) const { return {}; }
  IValue operator()(bool value) const { return number(value, type.item); }
  IValue operator()(std::int64_t value) const { return number(value, type.item); }
  IValue operator()(double value) const { return number(value, type.item); }
  IValue operator()(const std::string& value) const {
    if (type.item != Item::Text) misfit("is a text");
    return value;
  }
  IValue operator()(const DeviceName&) const {
    if (type.item != Item::Device) misfit("is a device");
    return at::Device(at::kCPU);
  }
  IValue operator()(const ValueName&) const { misfit("is no constant"); }
  template <class Code>
  requires std::is_enum_v<Code> IValue operator()(Code value) const {
    if (type.item != Item::Int) misfit("is a number of an enumeration");
    return code(value);
  }
};

template <class T, class Get>
IValue list_of(std::span<const IValue> items, const Get& get) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const IValue& value : items) list.push_back(get(value));
  return list;
}

}  // namespace

ArgumentType type_of(const c10::Argument& argument) {
  ArgumentType result;
  const c10::Type* type = without_optional(argument.type().get());
  if (type->kind() == c10::TypeKind::ListType) {
    result.is_list = true;
    result.length = argument.N().value_or(1);
    type = type->containedType(0).get();
    result.optional_items = type->kind() == c10::TypeKind::OptionalType;
    type = without_optional(type);
  }
  for (const ItemRow& row : kItems)
    if (row.kind == type->kind()) {
      result.item = row.item;
      return result;
    }
  throw std::invalid_argument(fmt::format("is of type {}", argument.type()->str()));
}

IValue constant(const Literal& literal, const ArgumentType& type) {
  return std::visit(Constant{type}, literal);
}

IValue item(IValue value, const ArgumentType& type) {
  if (value.isInt()) return number(value.toInt(), type.item);
  if (value.isDouble()) return number(value.toDouble(), type.item);
  if (value.isBool()) return number(value.toBool(), type.item);
  if (value.isTensor() && type.item != Item::Tensor) misfit("is a tensor");
  return value;
}

IValue list(std::span<const IValue> items, const ArgumentType& type) {
  switch (type.item) {
    case Item::Tensor:
      if (type.optional_items)
        return list_of<OptionalTensor>(items, [](const IValue& v) { return v.toOptional<at::Tensor>(); });
      return list_of<at::Tensor>(items, [](const IValue& v) { return v.toTensor(); });
    case Item::Int:
      return list_of<std::int64_t>(items, [](const IValue& v) { return v.toInt(); });
    case Item::Double:
      return list_of<double>(items, [](const IValue& v) { return v.toDouble(); });
    case Item::Bool:
      return list_of<bool>(items, [](const IValue& v) { return v.toBool(); });
    case Item::Text:
      return list_of<std::string>(items, [](const IValue& v) { return v.toStringRef(); });
    case Item::Number:
      return list_of<at::Scalar>(items, [](const IValue& v) { return v.toScalar(); });
    case Item::Device:
      break;
  }
  misfit("is a list of devices");
}

}  // namespace taxon::model::exported
