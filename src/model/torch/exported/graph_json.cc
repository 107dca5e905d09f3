#include "model/torch/exported/graph_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "model/torch/exported/fail.h"

namespace taxon::model::exported {
namespace {

using nlohmann::json;

constexpr std::int64_t kMajor = 8;
/// What torch.export.export gives, and what run_decompositions() makes of it.
constexpr std::string_view kWhole = "TRAINING", kDecomposed = "ATEN";

json parse(const std::string& text, std::string_view what) {
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object())
    fail(fmt::format("its {} is damaged: no JSON object", what));
  return parsed;
}

/// What may be left out is null.
const json& optional(const json& object, const char* key) {
  static const json kNull;
  const auto member = object.find(key);
  return member == object.end() ? kNull : *member;
}

/// A union of the schema: an object with one key.
std::pair<const std::string&, const json&> variant_of(const json& value) {
  if (!value.is_object() || value.size() != 1) fail("its graph is damaged: a union without its one key");
  const auto member = value.begin();
  return {member.key(), member.value()};
}

std::int64_t whole(const json& value) {
  if (!value.is_number_integer()) fail("its graph is damaged: no whole number where one belongs");
  return value.get<std::int64_t>();
}

/// JSON has no words for the three that are texts.
double real(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  fail("its graph is damaged: no number where one belongs");
}

ValueName value_name(const json& value) { return {value.at("name").get<std::string>()}; }

/// SymIntArgument and its like.
Literal symbolic(const json& value) {
  const auto [kind, content] = variant_of(value);
  if (kind == "as_name") return ValueName{content.get<std::string>()};
  if (kind == "as_int") return whole(content);
  if (kind == "as_float") return real(content);
  if (kind == "as_bool") return content.get<bool>();
  fail(fmt::format("its graph is damaged: a number {}", kind));
}

Literal optional_tensor(const json& value) {
  const auto [kind, content] = variant_of(value);
  if (kind == "as_none") return std::monostate{};
  return value_name(content);
}

/// A kind of argument in the schema, and how its value, or each item of its list, is read.
struct ArgumentKind {
  std::string_view name;
  bool is_list;
  Literal (*read)(const json&);
};

constexpr ArgumentKind kArgumentKinds[] = {
    {"as_none", false, [](const json&) { return Literal(); }},
    {"as_tensor", false, [](const json& value) { return Literal(value_name(value)); }},
    {"as_tensors", true, [](const json& value) { return Literal(value_name(value)); }},
    {"as_optional_tensor", false, optional_tensor},
    {"as_optional_tensors", true, optional_tensor},
    {"as_int", false, [](const json& value) { return Literal(whole(value)); }},
    {"as_ints", true, [](const json& value) { return Literal(whole(value)); }},
    {"as_float", false, [](const json& value) { return Literal(real(value)); }},
    {"as_floats", true, [](const json& value) { return Literal(real(value)); }},
    {"as_bool", false, [](const json& value) { return Literal(value.get<bool>()); }},
    {"as_bools", true, [](const json& value) { return Literal(value.get<bool>()); }},
    {"as_string", false, [](const json& value) { return Literal(value.get<std::string>()); }},
    {"as_sym_int", false, symbolic},
    {"as_sym_ints", true, symbolic},
    {"as_sym_float", false, symbolic},
    {"as_sym_floats", true, symbolic},
    {"as_sym_bool", false, symbolic},
    {"as_sym_bools", true, symbolic},
    {"as_scalar_type", false,
     [](const json& value) { return Literal(static_cast<ScalarTypeCode>(whole(value))); }},
    {"as_layout", false, [](const json& value) { return Literal(static_cast<LayoutCode>(whole(value))); }},
    {"as_memory_format", false,
     [](const json& value) { return Literal(static_cast<MemoryFormatCode>(whole(value))); }},
    {"as_device", false,
     [](const json& value) { return Literal(DeviceName{value.at("type").get<std::string>()}); }},
};

/// The items of an argument, or of what a node gives. Throws Error{Data} for kinds without a row.
std::vector<Literal> read_items(const json& value, const Node& node, bool& is_list) {
  const auto [kind, content] = variant_of(value);
  const auto* row = std::find_if(std::begin(kArgumentKinds), std::end(kArgumentKinds),
                                 [&, &kind = kind](const ArgumentKind& k) { return k.name == kind; });
  if (row == std::end(kArgumentKinds))
    fail(fmt::format("{} has a value of kind {}, which can't be trained here", place_of(node), kind));
  is_list = row->is_list;
  if (!is_list) return {row->read(content)};
  if (!content.is_array()) fail("its graph is damaged: a list that is none");
  std::vector<Literal> items;
  for (const json& item : content) items.push_back(row->read(item));
  return items;
}

Argument parse_argument(const json& named, const Node& node) {
  Argument argument;
  argument.name = named.at("name").get<std::string>();
  argument.items = read_items(named.at("arg"), node, argument.is_list);
  return argument;
}

Returned parse_returned(const json& output, const Node& node) {
  Returned returned;
  for (const Literal& item : read_items(output, node, returned.is_list)) {
    const auto* name = std::get_if<ValueName>(&item);
    returned.names.push_back(name ? name->name : "");
  }
  return returned;
}

/// Of a stack trace the innermost line outside PyTorch itself and what it generates, which is the user's, or
/// the last one.
std::string place_in_python(const std::string& trace) {
  std::istringstream lines(trace);
  std::string line, best, code;
  bool in_library = true, wants_code = false;
  while (std::getline(lines, line)) {
    const std::size_t begin = line.find_first_not_of(' ');
    const std::string_view text = begin == std::string::npos ? "" : std::string_view(line).substr(begin);
    if (text.starts_with("File \"")) {
      const std::string_view rest = text.substr(6);
      const std::size_t quote = rest.find('"'), comma = rest.find(", line ");
      if (quote == std::string_view::npos || comma == std::string_view::npos) continue;
      const std::string_view path = rest.substr(0, quote);
      const bool library =
          path.starts_with("torch/") || path.starts_with('<') || path.find("-packages/torch/") != path.npos;
      wants_code = !library || in_library;
      if (!wants_code) continue;
      in_library = library;
      const std::string_view number = rest.substr(comma + 7);
      best = fmt::format("{}, line {}", std::filesystem::path(path).filename().string(),
                         number.substr(0, number.find_first_not_of("0123456789")));
      code.clear();
    } else if (wants_code && !text.empty()) {
      code = text;
      wants_code = false;
    }
  }
  return code.empty() ? best : best + ": " + code;
}

Node parse_node(const json& value) {
  Node node;
  node.target = value.at("target").get<std::string>();
  const json& name = optional(value, "name");
  if (name.is_string()) node.name = name.get<std::string>();
  const json& trace = optional(optional(value, "metadata"), "stack_trace");
  if (trace.is_string()) node.place = place_in_python(trace.get<std::string>());
  if (node.target.starts_with("torch.ops.higher_order."))
    fail(fmt::format("{} is a higher-order operator, which can't be trained here", place_of(node)));
  for (const json& input : value.at("inputs")) node.arguments.push_back(parse_argument(input, node));
  for (const json& output : value.at("outputs")) node.outputs.push_back(parse_returned(output, node));
  return node;
}

std::int64_t size_of_stored(const json& value) {
  const auto [kind, content] = variant_of(value);
  if (kind != "as_int") fail("its graph is damaged: a stored tensor whose size is not known");
  return whole(content);
}

/// "Symbol('s77', positive=True, integer=True)" is s77; anything else stays as it is.
std::string symbol_of(const std::string& expression) {
  constexpr std::string_view kBegin = "Symbol('";
  if (!expression.starts_with(kBegin)) return expression;
  const std::string rest = expression.substr(kBegin.size());
  const std::size_t quote = rest.find('\'');
  return quote == std::string::npos || rest.find(')') != rest.size() - 1 ? expression : rest.substr(0, quote);
}

TensorMeta parse_meta(const json& value, bool stored) {
  TensorMeta meta;
  meta.type = static_cast<ScalarTypeCode>(whole(value.at("dtype")));
  for (const json& size : value.at("sizes")) {
    const auto [kind, content] = variant_of(size);
    const bool known = kind == "as_int";
    meta.sizes.push_back(known ? std::optional(whole(content)) : std::nullopt);
    meta.symbols.push_back(known ? "" : symbol_of(content.at("expr_str").get<std::string>()));
  }
  meta.requires_grad = value.at("requires_grad").get<bool>();
  if (!stored) return meta;
  for (const json& size : value.at("sizes")) size_of_stored(size);
  for (const json& stride : value.at("strides")) meta.strides.push_back(size_of_stored(stride));
  meta.storage_offset = size_of_stored(value.at("storage_offset"));
  return meta;
}

/// A kind of input that is stored in the file, and where its specification says PyTorch's name of it.
struct StoredKind {
  std::string_view name;
  Input::Kind kind;
  const char* target;
};

constexpr StoredKind kStoredKinds[] = {
    {"parameter", Input::Kind::Parameter, "parameter_name"},
    {"buffer", Input::Kind::Buffer, "buffer_name"},
    {"tensor_constant", Input::Kind::Constant, "tensor_constant_name"},
};

Input parse_input(const json& spec) {
  const auto [kind, content] = variant_of(spec);
  if (kind == "constant_input") return {};  // its value stands where it is used
  if (kind == "user_input") {
    const auto [type, argument] = variant_of(content.at("arg"));
    if (type == "as_none") return {};
    if (type != "as_tensor") fail(fmt::format("takes an input of kind {}; all must be tensors", type));
    return {.kind = Input::Kind::User, .value = value_name(argument).name};
  }
  for (const StoredKind& row : kStoredKinds)
    if (row.name == kind)
      return {row.kind, value_name(content.at("arg")).name, content.at(row.target).get<std::string>(),
              row.kind != Input::Kind::Buffer || content.value("persistent", true)};
  fail(fmt::format("takes an input of kind {}, which can't be trained here", kind));
}

/// Of several outputs of the user's the first tensors count; a None or a number, which a module may give
/// beside them, ends them.
void parse_output(const json& spec, Graph& graph, bool& ended) {
  const auto [kind, content] = variant_of(spec);
  if (kind == "buffer_mutation") {
    graph.mutations.push_back(
        {value_name(content.at("arg")).name, content.at("buffer_name").get<std::string>()});
    return;
  }
  if (kind != "user_output") fail(fmt::format("gives {}, which can't be trained here", kind));
  const auto [type, argument] = variant_of(content.at("arg"));
  ended = ended || type != "as_tensor";
  if (ended && graph.outputs.empty()) fail(fmt::format("gives {} where a tensor of logits belongs", type));
  if (!ended) graph.outputs.push_back(value_name(argument).name);
}

void require_version(const json& program) {
  const json& version = program.at("schema_version");
  const json& writer = optional(program, "torch_version");
  const std::string by = writer.is_string() ? writer.get<std::string>() : "an unknown release";
  if (whole(version.at("major")) != kMajor)
    fail(fmt::format(
        "has version {}.{} of torch.export's schema, written by PyTorch {}; version {} can be read: "
        "export with PyTorch 2.9 to 2.15",
        whole(version.at("major")), whole(version.at("minor")), by, kMajor));
}

/// Whether the graph was decomposed.
bool parse_dialect(const json& program) {
  bool is_decomposed = false;
  const json& dialects = optional(program, "verifiers");
  for (const json& item : dialects.is_array() ? dialects : json::array()) {
    const std::string dialect = item.get<std::string>();
    if (dialect != kWhole && dialect != kDecomposed)
      fail(fmt::format("is in dialect {} of torch.export; save what torch.export.export gives, as it is",
                       dialect));
    is_decomposed = is_decomposed || dialect == kDecomposed;
  }
  return is_decomposed;
}

void parse_ranges(const json& ranges, Graph& graph) {
  for (const auto& [symbol, range] : ranges.items()) {
    SymbolRange bounds;
    if (const json& min = optional(range, "min_val"); min.is_number_integer()) bounds.min = whole(min);
    if (const json& max = optional(range, "max_val"); max.is_number_integer()) bounds.max = whole(max);
    graph.symbols[symbol] = bounds;
  }
}

/// What nlohmann throws is of a file that is not as the schema says.
template <class Body>
auto reading(const Body& body) {
  try {
    return body();
  } catch (const json::exception& error) {
    fail(fmt::format("its graph is damaged: {}", error.what()));
  }
}

}  // namespace

Graph parse_graph(const std::string& text) {
  return reading([&] {
    const json program = parse(text, "graph");
    require_version(program);
    Graph graph;
    graph.is_decomposed = parse_dialect(program);
    const json& module = program.at("graph_module");
    const json& body = module.at("graph");
    for (const auto& [name, meta] : body.at("tensor_values").items())
      graph.tensors[name] = parse_meta(meta, /*stored=*/false);
    parse_ranges(program.at("range_constraints"), graph);
    for (const json& spec : module.at("signature").at("input_specs"))
      graph.inputs.push_back(parse_input(spec));
    bool ended = false;
    for (const json& spec : module.at("signature").at("output_specs")) parse_output(spec, graph, ended);
    for (const json& node : body.at("nodes")) graph.nodes.push_back(parse_node(node));
    return graph;
  });
}

std::map<std::string, Payload> parse_payloads(const std::string& text, const std::string& folder) {
  return reading([&] {
    std::map<std::string, Payload> payloads;
    const json config = parse(text, "table of weights");
    for (const auto& [name, payload] : config.at("config").items()) {
      if (payload.at("use_pickle").get<bool>() || !payload.at("tensor_meta").is_object())
        fail(fmt::format("has {} as a Python object; parameters and buffers must be plain tensors", name));
      payloads[name] = {folder + payload.at("path_name").get<std::string>(),
                        parse_meta(payload.at("tensor_meta"), /*stored=*/true)};
    }
    return payloads;
  });
}

}  // namespace taxon::model::exported
