#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace taxon::model::exported {

// What a program of torch.export says, as plain data in its own terms. Source: torch/_export/serde/schema.py
// of PyTorch 2.15, version 8 of the schema.

/// Numbers of the schema's enumerations.
enum class ScalarTypeCode : int {};
enum class LayoutCode : int {};
enum class MemoryFormatCode : int {};

/// A tensor or number that a node or an input gives.
struct ValueName {
  std::string name;
};
struct DeviceName {
  std::string type;
};
/// std::monostate is None.
using Literal = std::variant<std::monostate, ValueName, bool, std::int64_t, double, std::string,
                             ScalarTypeCode, LayoutCode, MemoryFormatCode, DeviceName>;

struct Argument {
  std::string name;  // of the operator's schema
  bool is_list = false;
  std::vector<Literal> items;  // one, unless it is a list
};

/// A returned value: its name, or those of the tensors of a returned list. Empty names: nobody uses it.
struct Returned {
  bool is_list = false;
  std::vector<std::string> names;
};

/// A call of an operator.
struct Node {
  std::string name;
  std::string target;  // "torch.ops.aten.conv2d.default", "_operator.mul"
  std::vector<Argument> arguments;
  std::vector<Returned> outputs;
  std::string place;  // in the user's Python: "net.py, line 9: return self.fc(x)"; empty: unknown
};

struct TensorMeta {
  ScalarTypeCode type{};
  std::vector<std::optional<std::int64_t>> sizes;  // none: differs from call to call
  std::vector<std::int64_t> strides;               // of stored tensors only
  std::int64_t storage_offset = 0;                 // in elements
  std::vector<std::string> symbols;                // as many as sizes: what stands for a size that differs
  bool requires_grad = false;
};

struct Input {
  enum class Kind { Parameter, Buffer, Constant, User, Unused } kind = Kind::Unused;
  std::string value;       // the graph's name of it
  std::string target;      // PyTorch's name of a parameter, buffer or constant: "conv1.weight"
  bool persistent = true;  // false: a buffer that is no part of state_dict()
  bool trained = true;     // false: a parameter that does not require gradients
};

/// After a pass in training, a buffer takes this value.
struct BufferMutation {
  std::string value;
  std::string buffer;
};

/// Extents that a symbol may have.
struct SymbolRange {
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
};

struct Graph {
  bool is_decomposed = false;  // by run_decompositions(): dropout and its like may be sums of parts
  std::vector<Input> inputs;
  std::vector<Node> nodes;  // each after those whose values it reads
  std::vector<std::string> outputs;
  std::vector<BufferMutation> mutations;
  std::map<std::string, TensorMeta> tensors;   // of values
  std::map<std::string, SymbolRange> symbols;  // that are bounded
};

/// Where the elements of a parameter, buffer or constant lie in the file.
struct Payload {
  std::string member;  // of the archive
  TensorMeta meta;
};

/// "operator aten.relu.default at node relu_1 (net.py, line 9: ...)".
std::string place_of(const Node& node);
/// "torch.ops.aten.relu.default" as "aten.relu.default".
std::string operator_name(const Node& node);

}  // namespace taxon::model::exported
