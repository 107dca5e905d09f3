#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

namespace taxon::bench {

/// In front of a tensor in a message.
struct TensorHead {
  std::uint64_t request = 0;  // of the harness
  std::uint64_t number = 0;   // in it
  std::uint64_t variable = 0;
  std::uint64_t elements = 0;
};

/// A message of two slices, as TensorFlow sends tensors since it left protobuf's strings: a small head, and
/// the tensor where it lies. `tensor` stays as it is until the other side has answered, or until `done` is
/// called with `of`, if it is given.
inline grpc::ByteBuffer tensor_message(const TensorHead& head, std::span<float> tensor,
                                       void (*done)(void*) = nullptr, void* of = nullptr) {
  const grpc::Slice slices[] = {
      grpc::Slice(&head, sizeof head),
      done ? grpc::Slice(tensor.data(), tensor.size_bytes(), done, of)
           : grpc::Slice(tensor.data(), tensor.size_bytes(), grpc::Slice::STATIC_SLICE)};
  return grpc::ByteBuffer(slices, 2);
}

/// Message of one value.
template <class T>
grpc::ByteBuffer value_message(const T& value) {
  const grpc::Slice slice(&value, sizeof value);
  return grpc::ByteBuffer(&slice, 1);
}

/// Reads a message from its beginning on, piece by piece as it came off the wire.
class MessageReader {
 public:
  explicit MessageReader(const grpc::ByteBuffer& message) : left_(message.Length()) {
    if (!message.Dump(&slices_).ok()) throw std::runtime_error("gRPC gave a message without bytes");
  }
  std::size_t left() const { return left_; }
  /// REQUIRES: bytes <= left().
  void read(void* target, std::size_t bytes) {
    left_ -= bytes;
    for (auto* to = static_cast<std::byte*>(target); bytes > 0;) {
      const grpc::Slice& slice = slices_[slice_];
      const std::size_t here = std::min(bytes, slice.size() - at_);
      std::memcpy(to, slice.begin() + at_, here);
      to += here;
      bytes -= here;
      at_ += here;
      if (at_ == slice.size()) {
        ++slice_;
        at_ = 0;
      }
    }
  }
  template <class T>
  T value() {
    T result{};
    if (left_ < sizeof result) throw std::runtime_error("a message is cut short");
    read(&result, sizeof result);
    return result;
  }
  /// The tensor behind its head, into one piece of memory: a tensor is used by code that wants it so.
  void tensor(const TensorHead& head, std::vector<float>& target) {
    if (left_ != head.elements * sizeof(float)) throw std::runtime_error("a tensor is cut short");
    target.resize(head.elements);
    read(target.data(), left_);
  }

 private:
  std::vector<grpc::Slice> slices_;
  std::size_t slice_ = 0, at_ = 0, left_;
};

/// Methods whose messages are bytes, without protobuf: what its generated code does. `kind`: NORMAL_RPC,
/// CLIENT_STREAMING or BIDI_STREAMING.
using RpcKind = grpc::internal::RpcMethod::RpcType;
inline grpc::internal::RpcMethod method_of(const char* name, RpcKind kind,
                                           const std::shared_ptr<grpc::Channel>& channel) {
  return {name, kind, channel};
}

inline void require(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error("gRPC failed: " + status.error_message());
}

}  // namespace taxon::bench
