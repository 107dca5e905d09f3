#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

/// Throws Error{Mismatch} when the bytes end early. `bytes` outlives it.
class Unpacker {
 public:
  explicit Unpacker(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  std::int64_t number();
  double real();
  std::string text();
  std::vector<double> numbers();
  std::vector<std::byte> bytes();
  std::vector<checkpoint::LogicalTensor> tensors();

 private:
  const std::byte* next(std::size_t size);
  const std::vector<std::byte>& bytes_;
  std::size_t position_ = 0;
};

}  // namespace taxon::train
