#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/error.h"

namespace taxon::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

using Json = nlohmann::ordered_json;  // a header keeps the order of its tensors

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t kLength = sizeof(std::uint64_t);

struct TypeRow {
  DType type;
  const char* name;
};
constexpr TypeRow kTypes[] = {
    {DType::Float32, "F32"}, {DType::Float64, "F64"}, {DType::BFloat16, "BF16"},
    {DType::Int32, "I32"},   {DType::Int64, "I64"},   {DType::UInt8, "U8"},
};
constexpr const char* kFlags = "BOOL";

const char* type_name(const LogicalTensor& tensor) {
  if (tensor.is_flags) return kFlags;
  for (const TypeRow& row : kTypes)
    if (row.type == tensor.type) return row.name;
  TAXON_CHECK(false, "no safetensors name for ", to_string(tensor.type));
}

/// Bytes of a tensor; none if the number does not fit.
std::optional<std::size_t> bytes_of(DType type, const std::vector<std::int64_t>& shape) {
  std::size_t bytes = size_of(type);
  for (std::int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes))
      return std::nullopt;
  return bytes;
}

// --- writing -------------------------------------------------------------------------------------------

/// The order of the tensors in the data: the widest type first, otherwise as given.
std::vector<std::size_t> order_of(const std::vector<LogicalTensor>& tensors) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tensors.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].type) > size_of(tensors[b].type);
  });
  return order;
}

std::string header_of(const std::vector<LogicalTensor>& tensors, const std::vector<std::size_t>& order,
                      const Metadata& metadata) {
  std::vector<std::size_t> begin(tensors.size());
  std::size_t next = 0;
  for (std::size_t i : order) begin[i] = std::exchange(next, next + tensors[i].bytes.size());
  Json header = Json::object();
  std::set<std::string> names{kMetadata};
  auto& members = header.get_ref<Json::object_t&>();
  if (!metadata.empty()) header[kMetadata] = metadata;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const LogicalTensor& tensor = tensors[i];
    TAXON_CHECK(names.insert(tensor.name).second, "two tensors of one file are called ", tensor.name);
    TAXON_CHECK(bytes_of(tensor.type, tensor.shape) == tensor.bytes.size(), tensor.name, " has ",
                tensor.bytes.size(), " bytes");
    Json entry = Json::object();
    entry["dtype"] = type_name(tensor);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {begin[i], begin[i] + tensor.bytes.size()};
    members.push_back({tensor.name, std::move(entry)});  // not header[...], which looks at all before it
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// --- reading -------------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(ConstView file, const std::string& path) : file_(file), path_(path) {}

  std::vector<LogicalTensor> read(Metadata& metadata) {
    std::vector<LogicalTensor> tensors;
    parse(cut_header(), [&](const std::string& name, const Json& entry) {
      if (name == kMetadata)
        read_metadata(entry, metadata);
      else
        tensors.push_back(read_tensor(name, entry));
    });
    require_no_holes();
    return tensors;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::Checkpoint,
                fmt::format("{}: {}", path_, fmt::format(format, std::forward<Args>(args)...)),
                {{}, "read safetensors", path_});
  }

  std::string_view cut_header() {
    if (file_.size() < kLength)
      fail("is cut short or no safetensors file: {} bytes have no room for its header's length",
           file_.size());
    std::uint64_t length;
    std::memcpy(&length, file_.data(), kLength);
    if (length > kMaxHeader)
      fail("is no safetensors file: its header would have {} bytes, and {} are allowed", length, kMaxHeader);
    if (length > file_.size() - kLength)
      fail("is cut short: its header has {} bytes and only {} follow", length, file_.size() - kLength);
    data_ = file_.slice(kLength + length, file_.size() - kLength - length);
    return {reinterpret_cast<const char*>(file_.data()) + kLength, length};
  }

  /// Calls `read` with the name and the value of every entry, in order, as it comes: the parser finds a key
  /// of an object by looking at all, which millions of them must not be kept in one.
  void parse(std::string_view text, const std::function<void(const std::string&, const Json&)>& read) const {
    if (text.empty() || text[0] != '{') fail("is no safetensors file: its header does not begin with '{{'");
    // The parser would silently keep one of two equal keys.
    std::vector<std::unordered_set<std::string>> keys(4);
    std::string name;
    using Event = Json::parse_event_t;
    auto check = [&](int depth, Event event, Json& value) {
      auto level = static_cast<std::size_t>(depth);
      if (event == Event::object_start || event == Event::array_start) {
        if (level + 1 >= keys.size()) fail("has a damaged header: it is nested too deeply");
        keys[level + 1].clear();
      }
      if (event == Event::key) {
        const auto& key = value.get_ref<const std::string&>();
        if (!keys[level].insert(key).second) fail("has a damaged header: it has two entries '{}'", key);
        if (level == 1) name = key;
      }
      const bool ends = event == Event::object_end || event == Event::array_end || event == Event::value;
      if (!ends || level != 1) return true;
      read(name, value);
      return false;
    };
    try {
      [[maybe_unused]] const Json rest = Json::parse(text.begin(), text.end(), check);
    } catch (const Json::exception& error) {
      fail("has a damaged header: {}", error.what());
    }
  }

  void read_metadata(const Json& entry, Metadata& metadata) const {
    if (!entry.is_object()) fail("has a damaged header: {} is no object", kMetadata);
    for (auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("has a damaged header: {} '{}' is no text", kMetadata, key);
      metadata[key] = value.get<std::string>();
    }
  }

  std::uint64_t number(const Json& value, const std::string& name) const {
    if (!value.is_number_unsigned())
      fail("has a damaged header: tensor '{}' has a number that is none", name);
    return value.get<std::uint64_t>();
  }

  DType read_type(const Json& entry, const std::string& name) const {
    if (!entry.contains("dtype") || !entry["dtype"].is_string())
      fail("has a damaged header: tensor '{}' has no dtype", name);
    const auto& text = entry["dtype"].get_ref<const std::string&>();
    for (const TypeRow& row : kTypes)
      if (text == row.name) return row.type;
    if (text == kFlags) return DType::UInt8;
    fail("holds tensor '{}' of type {}, which Taxon does not know", name, text);
  }

  LogicalTensor read_tensor(const std::string& name, const Json& entry) {
    LogicalTensor tensor{name, DType::Float32, {}, {}};
    if (!entry.is_object() || !entry.contains("shape") || !entry["shape"].is_array() ||
        !entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
        entry["data_offsets"].size() != 2)
      fail("has a damaged header: tensor '{}' has no shape or no data_offsets", name);
    tensor.type = read_type(entry, name);
    tensor.is_flags = entry["dtype"] == kFlags;
    for (const Json& extent : entry["shape"])
      tensor.shape.push_back(static_cast<std::int64_t>(number(extent, name)));
    std::uint64_t begin = number(entry["data_offsets"][0], name);
    std::uint64_t end = number(entry["data_offsets"][1], name);
    if (begin > end) fail("has a damaged header: tensor '{}' ends before it begins", name);
    if (end > data_.size())
      fail("is cut short: tensor '{}' ends at byte {} of its data, which have {}", name, end, data_.size());
    if (bytes_of(tensor.type, tensor.shape) != end - begin)
      fail("has a damaged header: tensor '{}' has {} bytes, which its type and shape contradict", name,
           end - begin);
    ConstView bytes = data_.slice(begin, end - begin);
    tensor.bytes.assign(bytes.data(), bytes.data() + bytes.size());
    places_.push_back({begin, end, name});
    return tensor;
  }

  void require_no_holes() {
    std::sort(places_.begin(), places_.end());
    std::uint64_t next = 0;
    for (const Extent& place : places_) {
      if (place.begin < next) fail("has a damaged header: tensor '{}' overlaps another", place.name);
      if (place.begin > next) fail("has a damaged header: there is a hole before tensor '{}'", place.name);
      next = place.end;
    }
    if (next != data_.size()) fail("has {} bytes after its last tensor", data_.size() - next);
  }

  struct Extent {
    std::uint64_t begin, end;
    std::string name;
    auto operator<=>(const Extent&) const = default;  // NOLINT(modernize-use-nullptr): sees a 0 in it
  };
  ConstView file_, data_;
  const std::string& path_;
  std::vector<Extent> places_;
};

}  // namespace

std::vector<std::byte> encode_safetensors(const std::vector<LogicalTensor>& tensors,
                                          const Metadata& metadata) {
  std::vector<std::size_t> order = order_of(tensors);
  std::string header = header_of(tensors, order, metadata);
  std::uint64_t length = header.size();
  std::size_t size = kLength + header.size();
  for (const LogicalTensor& tensor : tensors) size += tensor.bytes.size();
  std::vector<std::byte> file;
  file.reserve(size);
  auto append = [&](const void* bytes, std::size_t count) {
    auto* first = static_cast<const std::byte*>(bytes);
    file.insert(file.end(), first, first + count);
  };
  append(&length, kLength);
  append(header.data(), header.size());
  for (std::size_t i : order) append(tensors[i].bytes.data(), tensors[i].bytes.size());
  return file;
}

std::vector<LogicalTensor> decode_safetensors(ConstView file, const std::string& path, Metadata* metadata) {
  Metadata unasked;
  return Reader(file, path).read(metadata ? *metadata : unasked);
}

void write_safetensors(data::Storage& storage, const std::string& path,
                       const std::vector<LogicalTensor>& tensors, const Metadata& metadata) {
  std::vector<std::byte> file = encode_safetensors(tensors, metadata);
  storage.write_atomic(path, ConstView(file.data(), file.size()));
}

std::vector<LogicalTensor> read_safetensors(const data::Storage& storage, const std::string& path) {
  std::vector<std::byte> file;
  try {
    file = storage.read(path);
  } catch (const Error& error) {
    throw Error(ErrorKind::Checkpoint, error.what(), {{}, "read safetensors", path});
  }
  return decode_safetensors(ConstView(file.data(), file.size()), path);
}

}  // namespace taxon::checkpoint
