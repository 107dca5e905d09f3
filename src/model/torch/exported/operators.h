#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace taxon::model::exported {

/// An operator that is computed here rather than by the framework's dispatcher.
struct OwnOperator {
  std::string_view target;  // as Node::target
  const char* schema;       // in the framework's notation
  void (*function)(torch::jit::Stack& stack);
};

/// What is computed of sizes: Python's arithmetic, and the questions for a tensor's size.
std::span<const OwnOperator> symbolic_operators();
/// Operators of newer libraries, out of what older ones have, to the same values.
std::span<const OwnOperator> substitute_operators();

/// What a node calls.
class Operator {
 public:
  /// The dispatcher's, else a row of the tables. Empty: there is none in this libtorch.
  static std::optional<Operator> find(const std::string& target);

  const c10::FunctionSchema& schema() const { return handle_ ? handle_->schema() : *own_schema_; }
  /// Takes the schema's arguments off the stack's end, and leaves what it returns.
  void call(torch::jit::Stack& stack) const {
    if (handle_)
      handle_->callBoxed(stack);
    else
      function_(stack);
  }
  /// Whether it draws random numbers.
  bool is_random() const;

 private:
  explicit Operator(c10::OperatorHandle handle) : handle_(handle) {}
  explicit Operator(const OwnOperator& own);

  std::optional<c10::OperatorHandle> handle_;
  std::shared_ptr<const c10::FunctionSchema> own_schema_;
  void (*function_)(torch::jit::Stack& stack) = nullptr;
};

/// Whether the exporter left the node as a note of what it had found, which nothing depends on.
bool is_note(const std::string& target);

}  // namespace taxon::model::exported
