#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "base/error.h"
#include "data/csv_table.h"
#include "data/halves.h"
#include "data/number_dataset.h"

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
  bool standardise = true;
  std::vector<std::int64_t> shape;
};
template <plan::Like<CsvOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{.key = "label",
                  .sentence = "The column of labels: first, last, its name in the header, or its number from "
                              "1; all others are the sample."},
      o.label);
  visit(
      plan::Field{.key = "header",
                  .sentence = "Whether the first row is a header; auto: if one of its fields is no number."},
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
                              "set."},
      o.standardise);
  visit(plan::Field{.key = "shape",
                    .sentence = "Of a sample, such as [1, 28, 28]; empty: its columns, one after the other.",
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

/// Index of the column of labels.
std::size_t label_column(const CsvOptions& options, const CsvTable& table, const std::string& path) {
  const auto named = std::find(table.header.begin(), table.header.end(), options.label);
  if (named != table.header.end()) return static_cast<std::size_t>(named - table.header.begin());
  if (options.label == "first") return 0;
  if (options.label == "last") return table.columns - 1;
  std::size_t number = 0;
  const char* end = options.label.data() + options.label.size();
  const auto [at, error] = std::from_chars(options.label.data(), end, number);
  if (error == std::errc() && at == end && number >= 1 && number <= table.columns) return number - 1;
  misuse(fmt::format("data.label: {} has no column \"{}\"; {}", path, options.label,
                     table.header.empty()
                         ? fmt::format("it has no header, and {} columns", table.columns)
                         : fmt::format("its columns are {}", fmt::join(table.header, ", "))));
}

/// Of each column of the training set.
struct Scale {
  std::vector<double> mean, factor;
};

Scale scale_of(const CsvTable& table) {
  const std::size_t n = table.columns, rows = table.values.size() / n;
  Scale scale{std::vector<double>(n), std::vector<double>(n, 1)};
  for (std::size_t i = 0; i < table.values.size(); ++i) scale.mean[i % n] += table.values[i];
  for (double& mean : scale.mean) mean /= static_cast<double>(rows);
  std::vector<double> squares(n);
  for (std::size_t i = 0; i < table.values.size(); ++i)
    squares[i % n] += (table.values[i] - scale.mean[i % n]) * (table.values[i] - scale.mean[i % n]);
  for (std::size_t c = 0; c < n; ++c)  // a column that is always the same becomes 0
    if (squares[c] > 0) scale.factor[c] = 1 / std::sqrt(squares[c] / static_cast<double>(rows));
  return scale;
}

class Opener {
 public:
  explicit Opener(const OpenContext& context)
      : context_(context), options_(context.plan.options.read<CsvOptions>()), classes_(options_.classes) {}

  std::unique_ptr<Dataset> open(const std::string& path) {
    CsvTable table =
        read_csv(context_.storage, path, separator_of(options_.separator), options_.header, *context_.faults);
    const std::size_t label = label_column(options_, table, path);
    if (table.columns < 2) misuse(fmt::format("data.separator: {} has one column only", path));
    if (columns_ == 0) columns_ = table.columns, header_ = table.header;
    require_columns(table, path);
    if (classes_ == 0) classes_ = largest(table, label, path) + 1;
    const std::vector<std::int64_t> labels = take_labels(table, label, path);
    if (options_.standardise && scale_.mean.empty()) scale_ = scale_of(table);
    return make(table, label, labels, path);
  }

 private:
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

  /// The labels. Rows whose label is none are faulty, and leave the table.
  std::vector<std::int64_t> take_labels(CsvTable& table, std::size_t label, const std::string& path) const {
    std::vector<std::int64_t> labels;
    std::vector<double> values;
    values.reserve(table.values.size());
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      const auto row = std::span(table.values).subspan(r * table.columns, table.columns);
      if (row[label] != std::floor(row[label]) || row[label] < 0 || row[label] >= classes_) {
        context_.faults->found(fmt::format("{}: row {}", path, table.rows[r]),
                               fmt::format("its label is {}, and whole numbers from 0 to {} are wanted",
                                           row[label], classes_ - 1));
        continue;
      }
      labels.push_back(static_cast<std::int64_t>(row[label]));
      values.insert(values.end(), row.begin(), row.end());
    }
    table.values = std::move(values);
    return labels;
  }

  std::unique_ptr<Dataset> make(const CsvTable& table, std::size_t label, std::vector<std::int64_t> labels,
                                const std::string& path) const {
    SampleShape shape{.input = options_.shape, .classes = classes_};
    const auto columns = static_cast<std::int64_t>(table.columns - 1);
    if (shape.input.empty()) shape.input = {columns};
    if (shape.elements() != columns)
      misuse(fmt::format("data.shape: [{}] are {} numbers, and {} has {} columns beside the label",
                         fmt::join(shape.input, ", "), shape.elements(), path, columns));
    std::vector<float> values;
    for (std::size_t i = 0; i < table.values.size(); ++i)
      if (const std::size_t c = i % table.columns; c != label)
        values.push_back(static_cast<float>(
            options_.standardise ? (table.values[i] - scale_.mean[c]) * scale_.factor[c] : table.values[i]));
    return std::make_unique<NumberDataset>(std::move(shape), std::move(values), std::move(labels));
  }

  const OpenContext& context_;
  const CsvOptions options_;
  int classes_;
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

}  // namespace

DatasetRow csv() {
  return {.name = "csv",
          .sentence =
              "Rows of numbers, one of them the label; `path` is the file, or a folder with train.csv "
              "and test.csv (or val.csv).",
          .open = open,
          .options = plan::option_keys<CsvOptions>,
          .by_class = true};
}

}  // namespace taxon::data
