#include "data/token_windows.h"

#include <algorithm>

#include "base/check.h"

namespace taxon::data {
namespace {

constexpr std::uint64_t kPiece = 4 << 20;  // a whole number of tokens of any width

}  // namespace

std::int64_t count_windows(std::int64_t tokens, std::int64_t context) {
  return tokens > context ? (tokens - 1) / context : 0;
}

bool refuse_windows(std::vector<char>& refused, std::int64_t windows, std::int64_t context,
                    std::int64_t position) {
  refused.resize(static_cast<std::size_t>(windows));
  bool is_new = false, is_used = false;
  const std::int64_t last =
      position / context;  // an input of this one, and perhaps a target of the one before
  for (std::int64_t window : {last, position % context == 0 ? last - 1 : last})
    if (window >= 0 && window < windows) {
      char& mark = refused[static_cast<std::size_t>(window)];
      is_used = true;
      is_new = is_new || mark == 0;
      mark = 1;
    }
  return is_new || !is_used;
}

void scan_file(const Storage& storage, const std::string& path,
               const std::function<void(std::uint64_t at, std::span<const std::byte>)>& each) {
  const std::uint64_t size = storage.size(path);
  for (std::uint64_t at = 0; at < size; at += kPiece)
    each(at, storage.read_range(path, at, std::min(kPiece, size - at)));
}

TokenWindows::TokenWindows(const Storage& storage, File file, int vocabulary, bool bytes)
    : storage_(storage),
      file_(std::move(file)),
      shape_{.input = {file_.context},
             .classes = vocabulary,
             .input_type = DType::Int64,
             .target = {file_.context},
             .bytes = bytes},
      size_(count_windows(file_.tokens, file_.context)) {
  if (std::find(file_.refused.begin(), file_.refused.end(), 1) == file_.refused.end()) return;
  for (std::int64_t window = 0; window < size_; ++window)
    if (file_.refused[static_cast<std::size_t>(window)] == 0) usable_.push_back(window);
  size_ = std::ssize(usable_);
}

void TokenWindows::read_tokens(std::span<const std::int64_t> indices, std::span<std::int64_t> inputs,
                               std::span<std::int64_t> targets) const {
  const auto context = static_cast<std::size_t>(file_.context), width = file_.width;
  TAXON_CHECK(inputs.size() == indices.size() * context && targets.size() == inputs.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    TAXON_CHECK(indices[i] >= 0 && indices[i] < size_, "index ", indices[i], " of ", size_);
    const std::int64_t window = usable_.empty() ? indices[i] : usable_[static_cast<std::size_t>(indices[i])];
    const std::vector<std::byte> bytes = storage_.read_range(
        file_.path, static_cast<std::uint64_t>(window) * context * width, (context + 1) * width);
    auto token = [&](std::size_t k) {
      std::int64_t value = 0;
      for (std::size_t b = width; b-- > 0;)
        value = value << 8 | std::to_integer<std::int64_t>(bytes[k * width + b]);
      return value;
    };
    for (std::size_t k = 0; k < context; ++k) {
      inputs[i * context + k] = token(k);
      targets[i * context + k] = token(k + 1);
    }
  }
}

tensor::Cost TokenWindows::cost(std::int64_t samples) const {
  return {0, static_cast<std::size_t>(samples * file_.context) * (file_.width + 2 * sizeof(std::int64_t))};
}

}  // namespace taxon::data
