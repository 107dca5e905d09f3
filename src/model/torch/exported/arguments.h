#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <span>

#include "model/torch/exported/graph.h"

namespace taxon::model::exported {

/// What an operator's schema wants for one argument.
struct ArgumentType {
  enum class Item { Tensor, Int, Double, Bool, Number, Text, Device } item = Item::Tensor;
  bool is_list = false;
  bool optional_items = false;  // of a list: some may be None
  int length = 1;               // of a list of numbers that a single one stands for
};

// These throw std::invalid_argument, in words that follow the argument's name.

ArgumentType type_of(const c10::Argument& argument);
/// A value that stands in the graph; ones of devices are the processor, whatever it was exported on.
c10::IValue constant(const Literal& literal, const ArgumentType& type);
/// A value that an earlier node gave, as the schema wants it.
c10::IValue item(c10::IValue value, const ArgumentType& type);
/// A list of what constant() and item() gave.
c10::IValue list(std::span<const c10::IValue> items, const ArgumentType& type);

}  // namespace taxon::model::exported
