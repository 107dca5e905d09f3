#include "train/bytes.h"

#include <cstring>

#include "base/error.h"

namespace taxon::train {

void Packer::number(std::int64_t value) { blob(&value, sizeof value); }
void Packer::real(double value) { blob(&value, sizeof value); }
void Packer::text(const std::string& text) { sized(text.data(), text.size()); }
void Packer::numbers(const std::vector<double>& values) {
  sized(values.data(), values.size() * sizeof(double));
}
void Packer::bytes(const std::vector<std::byte>& bytes) { sized(bytes.data(), bytes.size()); }

void Packer::tensors(const std::vector<checkpoint::LogicalTensor>& tensors) {
  number(static_cast<std::int64_t>(tensors.size()));
  for (const auto& tensor : tensors) {
    text(tensor.name);
    number(static_cast<std::int64_t>(tensor.type));
    number(static_cast<std::int64_t>(tensor.shape.size()));
    for (std::int64_t extent : tensor.shape) number(extent);
    bytes(tensor.bytes);
  }
}

void Packer::sized(const void* data, std::size_t size) {
  number(static_cast<std::int64_t>(size));
  blob(data, size);
}

void Packer::blob(const void* data, std::size_t size) {
  auto* begin = static_cast<const std::byte*>(data);
  out_.insert(out_.end(), begin, begin + size);
}

std::int64_t Unpacker::number() {
  std::int64_t value;
  std::memcpy(&value, next(sizeof value), sizeof value);
  return value;
}

double Unpacker::real() {
  double value;
  std::memcpy(&value, next(sizeof value), sizeof value);
  return value;
}

std::string Unpacker::text() {
  auto size = static_cast<std::size_t>(number());
  return {reinterpret_cast<const char*>(next(size)), size};
}

std::vector<double> Unpacker::numbers() {
  auto size = static_cast<std::size_t>(number());
  std::vector<double> values(size / sizeof(double));
  const std::byte* data = next(size);
  if (!values.empty()) std::memcpy(values.data(), data, values.size() * sizeof(double));
  return values;
}

std::vector<std::byte> Unpacker::bytes() {
  auto size = static_cast<std::size_t>(number());
  const std::byte* begin = next(size);
  return {begin, begin + size};
}

std::vector<checkpoint::LogicalTensor> Unpacker::tensors() {
  std::vector<checkpoint::LogicalTensor> tensors;
  for (std::int64_t left = number(); left > 0; --left) {
    checkpoint::LogicalTensor tensor;
    tensor.name = text();
    tensor.type = static_cast<DType>(number());
    for (std::int64_t axes = number(); axes > 0; --axes) tensor.shape.push_back(number());
    tensor.bytes = bytes();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

const std::byte* Unpacker::next(std::size_t size) {
  if (size > bytes_.size() - position_)
    throw Error(ErrorKind::Mismatch,
                "what a rank told is cut short: the ranks run different versions of Taxon");
  position_ += size;
  return bytes_.data() + position_ - size;
}

}  // namespace taxon::train
