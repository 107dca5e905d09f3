#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/logical_tensor.h"

namespace taxon::train {

/// Appends numbers, texts and blobs to bytes, for what ranks tell each other; Unpacker reads them back in the
/// same order.
class Packer {
 public:
  void number(std::int64_t value);
  void real(double value);
  void text(const std::string& text);
  void numbers(const std::vector<double>& values);
  void bytes(const std::vector<std::byte>& bytes);
  void tensors(const std::vector<checkpoint::LogicalTensor>& tensors);
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void sized(const void* data, std::size_t size);
  void blob(const void* data, std::size_t size);
  std::vector<std::byte> out_;
};

/// Throws Error{Mismatch}, which names `from` if they are of a rank, when the bytes end early or are no such
/// thing. `bytes` outlives it.
class Unpacker {
 public:
  explicit Unpacker(const std::vector<std::byte>& bytes, std::optional<Rank> from = {})
      : bytes_(bytes), from_(from) {}
  std::int64_t number();
  double real();
  std::string text();
  std::vector<double> numbers();
  std::vector<std::byte> bytes();
  /// Of distinct names, and each of the bytes that its type and shape need.
  std::vector<checkpoint::LogicalTensor> tensors();

 private:
  const std::byte* next(std::size_t size);
  checkpoint::LogicalTensor tensor();
  Error refusal(const std::string& what) const;
  const std::vector<std::byte>& bytes_;
  const std::optional<Rank> from_;
  std::size_t position_ = 0;
};

}  // namespace taxon::train
