#include "data/csv_table.h"

#include <csv.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/error.h"

namespace taxon::data {
namespace {

constexpr std::size_t kChunk = 1 << 20;

/// What spreadsheets put before UTF-8.
constexpr std::array kMark = {std::byte{0xef}, std::byte{0xbb}, std::byte{0xbf}};
bool begins_with_mark(const std::vector<std::byte>& bytes) {
  return bytes.size() >= kMark.size() && std::equal(kMark.begin(), kMark.end(), bytes.begin());
}

/// How a field reads. Neither: it is empty, or no finite number.
struct Reading {
  std::optional<double> number;
  bool is_word = false;
};
Reading reading_of(const std::string& field) {
  const std::size_t first = field.find_first_not_of(" \t"), last = field.find_last_not_of(" \t");
  if (first == std::string::npos) return {};
  double value = 0;
  const char *begin = field.data() + first, *end = field.data() + last + 1;
  if (*begin == '+' && begin + 1 != end && begin[1] != '-') ++begin;  // from_chars takes none
  const auto [at, error] = std::from_chars(begin, end, value);
  if (error == std::errc::invalid_argument || at != end) return {.number = {}, .is_word = true};
  if (error != std::errc() || !std::isfinite(static_cast<float>(value))) return {};
  return {.number = value};
}

/// Gets fields and rows as libcsv finds them.
class Reader {
 public:
  Reader(const std::string& path, CsvHeader header, FaultLog& faults)
      : path_(path), header_(header), faults_(faults) {}

  void field(std::string text) { fields_.push_back(std::move(text)); }
  /// `end`: the character that ends it, or -1. Empty lines are told of, too.
  void end_row(int end) {
    const bool is_rest_of_end = fields_.empty() && end == '\n' && last_ == '\r';
    last_ = end;
    if (is_rest_of_end) return;
    ++row_;
    if (!fields_.empty()) take();
    fields_.clear();
  }
  CsvTable table;

 private:
  void take() {
    if (table.columns == 0) {
      table.columns = fields_.size();
      const bool has_words = std::any_of(fields_.begin(), fields_.end(),
                                         [](const std::string& f) { return reading_of(f).is_word; });
      if (header_ == CsvHeader::Yes || (header_ == CsvHeader::Auto && has_words)) {
        table.header = fields_;
        return;
      }
    }
    const std::string where = fmt::format("{}: row {}", path_, row_);
    if (fields_.size() != table.columns)
      return faults_.found(where, fmt::format("has {} field{}, and the first row has {}", fields_.size(),
                                              fields_.size() == 1 ? "" : "s", table.columns));
    std::vector<double> numbers;
    for (const std::string& text : fields_) {
      const auto number = reading_of(text).number;
      if (!number)
        return faults_.found(where, fmt::format("its field {} is \"{}\", and a finite number is wanted",
                                                numbers.size() + 1, text.substr(0, 40)));
      numbers.push_back(*number);
    }
    table.values.insert(table.values.end(), numbers.begin(), numbers.end());
    table.rows.push_back(row_);
  }

  const std::string& path_;
  const CsvHeader header_;
  FaultLog& faults_;
  std::vector<std::string> fields_;
  std::int64_t row_ = 0;
  int last_ = 0;  // what the row before ended with
};

/// libcsv's callbacks are C, through which nothing may be thrown.
struct Events {
  Reader& reader;
  std::exception_ptr error = {};
  template <class Body>
  void guard(Body&& body) {
    if (error) return;
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  }
  static void field(void* text, std::size_t size, void* self) {
    auto& events = *static_cast<Events*>(self);
    events.guard([&] { events.reader.field(std::string(static_cast<const char*>(text), size)); });
  }
  static void row(int end, void* self) {
    auto& events = *static_cast<Events*>(self);
    events.guard([&] { events.reader.end_row(end); });
  }
};

class Parser {
 public:
  explicit Parser(char separator) {
    TAXON_CHECK(csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL) == 0);
    csv_set_delim(&parser_, static_cast<unsigned char>(separator));
  }
  ~Parser() { csv_free(&parser_); }
  Parser(const Parser&) = delete;
  csv_parser* get() { return &parser_; }

 private:
  csv_parser parser_{};
};

}  // namespace

CsvTable read_csv(const Storage& storage, const std::string& path, char separator, CsvHeader header,
                  FaultLog& faults) {
  Reader reader(path, header, faults);
  Events events{reader};
  Parser parser(separator);
  const std::uint64_t size = storage.size(path);
  auto require = [&](bool parsed, std::uint64_t at) {
    if (events.error) std::rethrow_exception(events.error);
    if (!parsed)
      throw Error(ErrorKind::Data,
                  fmt::format("{}: byte {}: its quotes do not match ({})", path, at,
                              csv_strerror(csv_error(parser.get()))),
                  {{}, "read", path});
  };
  for (std::uint64_t at = 0; at < size; at += kChunk) {
    const std::vector<std::byte> chunk =
        storage.read_range(path, at, std::min<std::uint64_t>(kChunk, size - at));
    const std::size_t mark = at == 0 && begins_with_mark(chunk) ? kMark.size() : 0;
    const std::size_t done = csv_parse(parser.get(), chunk.data() + mark, chunk.size() - mark, Events::field,
                                       Events::row, &events);
    require(done == chunk.size() - mark, at + mark + done);
  }
  const bool ended = csv_fini(parser.get(), Events::field, Events::row, &events) == 0;
  require(ended, size);
  if (reader.table.rows.empty())
    throw Error(ErrorKind::Data, fmt::format("{}: has no row of numbers", path), {{}, "read", path});
  return std::move(reader.table);
}

}  // namespace taxon::data
