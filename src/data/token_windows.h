#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace taxon::data {

/// Windows of `context` tokens of a file; the targets are the tokens that follow each of them, which is the
/// window one further. Neighbouring windows share no input. Read from the file as they are needed.
class TokenWindows final : public Dataset {
 public:
  struct File {
    std::string path;
    std::size_t width = 1;      // bytes of a token, little-endian
    std::int64_t tokens = 0;    // whole ones in the file
    std::int64_t context = 0;   // tokens of a window
    std::vector<char> refused;  // windows that are not used: 1; empty: all are
  };
  /// `storage` outlives it.
  TokenWindows(const Storage& storage, File file, int vocabulary, bool bytes = false);
  std::int64_t size() const override { return size_; }
  const SampleShape& shape() const override { return shape_; }
  /// REQUIRES that it is not called: inputs are tokens.
  void read_tokens(std::span<const std::int64_t> indices, std::span<std::int64_t> inputs,
                   std::span<std::int64_t> targets) const override;
  tensor::Cost cost(std::int64_t samples) const override;

 private:
  const Storage& storage_;
  const File file_;
  SampleShape shape_;
  std::vector<std::int64_t> usable_;  // windows; empty: all
  std::int64_t size_;
};

/// Windows in a file of so many tokens.
std::int64_t count_windows(std::int64_t tokens, std::int64_t context);
/// Marks the windows that token `position` is an input or a target of. False: there are some, and all had
/// been marked before: a file full of faults is told of once for each window.
bool refuse_windows(std::vector<char>& refused, std::int64_t windows, std::int64_t context,
                    std::int64_t position);

/// Calls `each` with consecutive pieces of the file, and where they begin. Throws Error{Data}.
void scan_file(const Storage& storage, const std::string& path,
               const std::function<void(std::uint64_t at, std::span<const std::byte>)>& each);

}  // namespace taxon::data
