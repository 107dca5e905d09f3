#include "train/bytes.h"

#include <cstring>
#include <set>

#include "base/check.h"
#include "comm/told.h"

namespace taxon::train {
namespace {

/// UTF-8 without control characters: what a file's header may hold.
bool is_text(const std::string& name) {
  std::size_t follow = 0;  // bytes of a character that are still to come
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (follow > 0) {
      if ((byte & 0xc0) != 0x80) return false;
      --follow;
    } else if (byte >= 0xc2 && byte < 0xf5) {
      follow = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    } else if (byte < 0x20 || byte >= 0x7f) {
      return false;
    }
  }
  return follow == 0;
}

}  // namespace

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
    number(tensor.is_flags ? 1 : 0);
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
  const std::byte* data = next(size);
  if (size % sizeof(double) != 0) throw refusal(detail::join(size, " bytes of numbers"));
  std::vector<double> values(size / sizeof(double));
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
  std::set<std::string> names;
  for (std::int64_t left = number(); left > 0; --left) {
    tensors.push_back(tensor());
    if (!names.insert(tensors.back().name).second) throw refusal("two tensors of the same name");
  }
  return tensors;
}

checkpoint::LogicalTensor Unpacker::tensor() {
  checkpoint::LogicalTensor tensor;
  tensor.name = text();
  if (!is_text(tensor.name)) throw refusal("a tensor whose name is no text");
  const std::int64_t type = number();
  if (type < 0 || type > static_cast<std::int64_t>(DType::UInt8))
    throw refusal(detail::join("tensor ", tensor.name, " of type ", type));
  tensor.type = static_cast<DType>(type);
  tensor.is_flags = number() != 0;
  if (tensor.is_flags && tensor.type != DType::UInt8)
    throw refusal(detail::join("tensor ", tensor.name, " of flags of type ", type));
  auto bytes_of_shape = static_cast<std::int64_t>(size_of(tensor.type));
  bool fits = true;
  for (std::int64_t axes = number(); axes > 0; --axes) {
    tensor.shape.push_back(number());
    fits = fits && tensor.shape.back() >= 0 &&
           !__builtin_mul_overflow(bytes_of_shape, tensor.shape.back(), &bytes_of_shape);
  }
  tensor.bytes = bytes();
  if (!fits || tensor.bytes.size() != static_cast<std::size_t>(bytes_of_shape))
    throw refusal(detail::join("tensor ", tensor.name, " of other bytes than its shape has"));
  return tensor;
}

Error Unpacker::refusal(const std::string& what) const {
  if (from_) return comm::told_wrong(*from_, "state of ranks", what);
  return Error(ErrorKind::Mismatch, "what a rank told can't be: " + what);
}

const std::byte* Unpacker::next(std::size_t size) {
  if (size > bytes_.size() - position_) throw refusal("it is cut short");
  position_ += size;
  return bytes_.data() + position_ - size;
}

}  // namespace taxon::train
