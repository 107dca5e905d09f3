#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"
#include "data/csv_table.h"
#include "data/halves.h"
#include "data/number_dataset.h"
#include "data/typed_name.h"
#include "plan/legality.h"

namespace taxon::plan {

template <>
struct Words<data::CsvHeader> {
  static constexpr std::string_view all[] = {"auto", "yes", "no"};
};

}  // namespace taxon::plan

namespace taxon::data {
namespace {

struct CsvOptions {
  std::string label = "last";
  CsvHeader header = CsvHeader::Auto;
  std::string separator = ",";
  int classes = 0;
  std::vector<std::string> targets;
  bool standardise = true;
  bool standardise_targets = false;
  std::vector<std::string> inputs;
  std::vector<std::int64_t> shape;
};
template <plan::Like<CsvOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{.key = "label",
                  .sentence = "The column of labels: first, last, its name in the header, or its number from "
                              "1; all others are the sample."},
      o.label);
  visit(plan::Field{.key = "targets",
                    .sentence = "Columns of real numbers to be learnt in place of a label; empty: there is a "
                                "label."},
        o.targets);
  visit(
      plan::Field{.key = "header",
                  .sentence = "Whether the first row is a header; auto: if one of its fields is a word, and "
                              "neither empty nor a number, nan or inf."},
      o.header);
  visit(plan::Field{.key = "separator", .sentence = "Between fields: one character, or tab."}, o.separator);
  visit(plan::Field{.key = "classes",
                    .sentence = "Labels are 0 to this less one; 0: to the largest of the training set.",
                    .min = 0,
                    .max = 1 << 24},
        o.classes);
  visit(
      plan::Field{.key = "standardise",
                  .sentence = "Each column less its mean, over its standard deviation, both of the training "
                              "set; of numbers only."},
      o.standardise);
  visit(plan::Field{.key = "standardise_targets",
                    .sentence = "The same for targets; loss and scores are then of these."},
        o.standardise_targets);
  visit(plan::Field{.key = "inputs",
                    .sentence = "Tensors of a sample, in the order in which a model takes them: each a type "
                                "(float32, int64 or bool, and a colon; float32 unless given) and columns, "
                                "separated by spaces, or first..last; empty: one, of all other columns."},
        o.inputs);
  visit(plan::Field{.key = "shape",
                    .sentence = "Of a sample's first tensor, such as [1, 28, 28]; empty: its columns, one "
                                "after the other.",
                    .min = 1},
        o.shape);
}

[[noreturn]] void misuse(const std::string& text) { throw Error(ErrorKind::Usage, text); }

char separator_of(const std::string& text) {
  if (text == "tab") return '\t';
  if (text.size() != 1 || text == "\"")
    misuse(fmt::format("data.separator: must be one character, or tab: it is \"{}\"", text));
  return text[0];
}

/// What columns are called in messages and options.
class Columns {
 public:
  Columns(const CsvTable& table, const std::string& path) : table_(table), path_(path) {}

  /// By its name, first, last, or its number from 1.
  std::size_t find(std::string_view key, std::string_view name) const {
    const auto named = std::find(table_.header.begin(), table_.header.end(), name);
    if (named != table_.header.end()) return static_cast<std::size_t>(named - table_.header.begin());
    if (name == "first") return 0;
    if (name == "last") return table_.columns - 1;
    std::size_t number = 0;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data(), end, number);
    if (error == std::errc() && at == end && number >= 1 && number <= table_.columns) return number - 1;
    misuse(fmt::format("data.{}: {} has no column \"{}\"; {}", key, path_, name,
                       table_.header.empty()
                           ? fmt::format("it has no header, and {} columns", table_.columns)
                           : fmt::format("its columns are {}", fmt::join(table_.header, ", "))));
  }

  /// Several, separated by spaces.
  std::vector<std::size_t> list(std::string_view key, std::string_view names) const {
    std::vector<std::size_t> columns;
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(' '));
      names.remove_prefix(std::min(names.size(), name.size() + 1));
      if (name.empty()) continue;
      const std::size_t dots = name.find("..");
      const std::size_t first = find(key, name.substr(0, dots));
      const std::size_t last = dots == std::string_view::npos ? first : find(key, name.substr(dots + 2));
      for (std::size_t c = first; c <= last; ++c) columns.push_back(c);
    }
    return columns;
  }

 private:
  const CsvTable& table_;
  const std::string& path_;
};

/// Columns that are one tensor of a sample.
struct Group {
  DType type = DType::Float32;
  std::vector<std::size_t> columns;
};

Group group_of(const Columns& columns, std::string_view text) {
  const auto [type, names] = typed(text);
  Group group{type, columns.list("inputs", names)};
  if (group.columns.empty()) misuse("data.inputs: a tensor without a column");
  return group;
}

/// Of each column of the training set.
struct Scale {
  std::vector<double> mean, factor;
};

Scale scale_of(const CsvTable& table) {
  const std::size_t n = table.columns, rows = table.values.size() / n;
  Scale scale{std::vector<double>(n), std::vector<double>(n, 1)};
  constexpr double kFar = std::numeric_limits<double>::infinity();
  std::vector<double> least(n, kFar), most(n, -kFar), squares(n);
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    const std::size_t c = i % n;
    scale.mean[c] += table.values[i];
    least[c] = std::min(least[c], table.values[i]);
    most[c] = std::max(most[c], table.values[i]);
  }
  for (double& mean : scale.mean) mean /= static_cast<double>(rows);
  // A column that is always the same becomes 0, although the mean of its sum may miss it by a rounding.
  for (std::size_t c = 0; c < n; ++c)
    if (least[c] == most[c]) scale.mean[c] = least[c];
  for (std::size_t i = 0; i < table.values.size(); ++i)
    squares[i % n] += (table.values[i] - scale.mean[i % n]) * (table.values[i] - scale.mean[i % n]);
  for (std::size_t c = 0; c < n; ++c)
    if (squares[c] > 0) scale.factor[c] = 1 / std::sqrt(squares[c] / static_cast<double>(rows));
  return scale;
}

class Opener {
 public:
  explicit Opener(const OpenContext& context)
      : context_(context),
        options_(context.plan.options.read<CsvOptions>()),
        has_targets_(!options_.targets.empty()),
        classes_(has_targets_ ? 0 : options_.classes) {}

  std::unique_ptr<Dataset> open(const std::string& path) {
    CsvTable table =
        read_csv(context_.storage, path, separator_of(options_.separator), options_.header, *context_.faults);
    const Columns columns(table, path);
    std::vector<std::size_t> learnt;
    for (const std::string& target : options_.targets) learnt.push_back(columns.find("targets", target));
    if (!has_targets_) learnt = {columns.find("label", options_.label)};
    if (table.columns < 2) misuse(fmt::format("data.separator: {} has one column only", path));
    if (columns_ == 0) columns_ = table.columns, header_ = table.header;
    require_columns(table, path);
    const std::vector<Group> inputs = inputs_of(table, columns, learnt);
    if (has_targets_) classes_ = static_cast<int>(learnt.size());
    if (classes_ == 0) classes_ = largest(table, learnt.front(), path) + 1;
    leave_out_faulty(table, inputs, learnt.front(), path);
    if (scale_.mean.empty()) scale_ = scale_of(table);
    return make(table, inputs, learnt, path);
  }

 private:
  std::vector<Group> inputs_of(const CsvTable& table, const Columns& columns,
                               const std::vector<std::size_t>& learnt) const {
    std::vector<Group> inputs;
    for (const std::string& text : options_.inputs) inputs.push_back(group_of(columns, text));
    if (!inputs.empty()) return inputs;
    inputs.emplace_back();
    for (std::size_t c = 0; c < table.columns; ++c)
      if (std::find(learnt.begin(), learnt.end(), c) == learnt.end()) inputs[0].columns.push_back(c);
    return inputs;
  }

  /// As many columns as the training set has, of the same names in the same order.
  void require_columns(const CsvTable& table, const std::string& path) const {
    auto fail = [&](std::string why) {
      throw Error(ErrorKind::Data, fmt::format("{}: {}", path, why), {{}, "read", path});
    };
    if (table.columns != columns_)
      fail(fmt::format("has {} columns, and the training set has {}", table.columns, columns_));
    if (table.header.empty() || header_.empty()) return;
    for (std::size_t c = 0; c < columns_; ++c)
      if (table.header[c] != header_[c])
        fail(fmt::format("its column {} is \"{}\", and the training set's is \"{}\"", c + 1, table.header[c],
                         header_[c]));
  }

  static int largest(const CsvTable& table, std::size_t label, const std::string& path) {
    double most = 0;
    for (std::size_t r = 0; r < table.rows.size(); ++r)
      most = std::max(most, table.values[r * table.columns + label]);
    if (most >= 1 << 24)
      throw Error(ErrorKind::Data, fmt::format("{}: has a label of {}; is column {} that of the labels?",
                                               path, most, label + 1));
    return static_cast<int>(most);
  }

  /// What is no label, token or flag where one is wanted; empty: nothing.
  std::string fault_of(std::span<const double> row, const std::vector<Group>& inputs,
                       std::size_t label) const {
    const auto is_whole = [](double value, double end) {
      return value == std::floor(value) && value >= 0 && value < end;
    };
    if (!has_targets_ && !is_whole(row[label], classes_))
      return fmt::format("its label is {}, and whole numbers from 0 to {} are wanted", row[label],
                         classes_ - 1);
    for (const Group& group : inputs)
      for (const std::size_t c : group.columns)
        if (group.type != DType::Float32 && !is_whole(row[c], group.type == DType::UInt8 ? 2 : 0x1p53))
          return fmt::format("its column {} is {}, and {} are wanted", c + 1, row[c],
                             group.type == DType::UInt8 ? "0 and 1" : "whole numbers from 0 on");
    return {};
  }

  /// Faulty rows leave the table.
  void leave_out_faulty(CsvTable& table, const std::vector<Group>& inputs, std::size_t label,
                        const std::string& path) const {
    std::vector<double> values;
    values.reserve(table.values.size());
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      const auto row = std::span(table.values).subspan(r * table.columns, table.columns);
      if (std::string fault = fault_of(row, inputs, label); !fault.empty())
        context_.faults->found(fmt::format("{}: row {}", path, table.rows[r]), fault);
      else
        values.insert(values.end(), row.begin(), row.end());
    }
    table.values = std::move(values);
  }

  std::unique_ptr<Dataset> make(const CsvTable& table, const std::vector<Group>& inputs,
                                const std::vector<std::size_t>& learnt, const std::string& path) const {
    const auto extent = [](const std::vector<std::size_t>& columns) {
      return static_cast<std::int64_t>(columns.size());
    };
    SampleShape shape{.input = options_.shape, .classes = classes_, .input_type = inputs[0].type};
    const std::int64_t columns = extent(inputs[0].columns);
    if (shape.input.empty()) shape.input = {columns};
    if (shape.elements() != columns)
      misuse(fmt::format("data.shape: [{}] are {} numbers, and {} has {} columns beside the label",
                         fmt::join(shape.input, ", "), shape.elements(), path, columns));
    for (const Group& group : std::span(inputs).subspan(1))
      shape.more.push_back({{extent(group.columns)}, group.type});
    if (has_targets_) shape.target = {extent(learnt)}, shape.target_type = DType::Float32;
    Samples samples(shape, table.values.size() / table.columns);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      fill(samples.parts[i], table, inputs[i].columns,
           options_.standardise && inputs[i].type == DType::Float32);
    fill(samples.labels, table, learnt, has_targets_ && options_.standardise_targets);
    return std::make_unique<NumberDataset>(std::move(shape), std::move(samples));
  }

  void fill(Elements& elements, const CsvTable& table, const std::vector<std::size_t>& columns,
            bool standardised) const {
    elements.room(0, elements.size()).visit([&]<class T>(std::span<T> room) {
      for (std::size_t i = 0; i < room.size(); ++i) {
        const std::size_t c = columns[i % columns.size()];
        const double value = table.values[i / columns.size() * table.columns + c];
        room[i] = static_cast<T>(standardised ? (value - scale_.mean[c]) * scale_.factor[c] : value);
      }
    });
  }

  const OpenContext& context_;
  const CsvOptions options_;
  const bool has_targets_;
  int classes_;  // or targets
  // Of the training set, which is opened first.
  std::size_t columns_ = 0;
  std::vector<std::string> header_;
  Scale scale_;
};

Datasets open(const OpenContext& context) {
  constexpr std::string_view kEndings[] = {".csv", ".tsv", ".txt"};
  Opener opener(context);
  return open_files(context, kEndings, [&](const std::string& path) { return opener.open(path); });
}

plan::Violation targets_alone(const plan::LegalityInput& c) {
  const auto options = c.plan.data.options.read<CsvOptions>();
  const bool labelled = options.label != CsvOptions().label || options.classes > 0;
  return plan::unless(options.targets.empty() || !labelled,
                      fmt::format("label is {}, classes is {}", options.label, options.classes));
}

constexpr plan::PlanRule kRules[] = {
    {"data.targets", "are learnt in place of a label: give neither label nor classes beside them",
     targets_alone}};

}  // namespace

DatasetRow csv() {
  return {.name = "csv",
          .sentence =
              "Rows of numbers, one of them the label, or some of them targets; `path` is the file, or a "
              "folder with train.csv "
              "and test.csv (or val.csv).",
          .open = open,
          .options = plan::option_keys<CsvOptions>,
          .rules = kRules,
          .by_class = true};
}

}  // namespace taxon::data
