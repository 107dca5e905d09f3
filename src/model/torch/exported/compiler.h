#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/torch/exported/graph.h"
#include "model/torch/exported/interpreter.h"

namespace taxon::model::exported {

/// Makes instructions of a graph's nodes.
class Interpreter::Compiler {
 public:
  explicit Compiler(Interpreter& target) : target_(target) {}
  /// Throws as Interpreter's constructor.
  void run();

 private:
  void add_inputs();
  void add_node(std::uint32_t index);
  void add_argument(Instruction& instruction, std::uint32_t index, const Argument& given);
  void add_list(Instruction& instruction, std::uint32_t index, const Argument& given,
                const ArgumentType& type);
  void add_mode(Instruction& instruction, std::uint32_t index, const Argument* given);
  bool is_frozen(const Argument* weight) const;
  void follow_memory(Instruction& instruction);
  void find_last_reads();

  Slot new_slot(const std::string& value);
  Slot slot_of(const std::string& value) const;
  void report(const Node& node, const std::string& why);

  Interpreter& target_;
  std::map<std::string, Slot> slots_;
  std::map<std::string, std::string> problems_;  // by operator, the first node's
  std::vector<std::string> order_;               // of the operators with problems
  int flags_ = 0, flags_in_training_ = 0;
  std::vector<const Node*> fixed_norms_;  // of these flags: norms that learn no statistics
};

}  // namespace taxon::model::exported
