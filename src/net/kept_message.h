#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace taxon::net {

/// Leaves what it makes as it is: the kernel gives pages of a large message when its bytes come, and not
/// because a header announced them.
struct Untouched {
  using value_type = std::byte;
  template <class T>
  struct rebind {
    using other = Untouched;
  };
  std::byte* allocate(std::size_t size) {
    void* const memory = std::malloc(size);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }
  void deallocate(std::byte* memory, std::size_t) { std::free(memory); }
  friend bool operator==(Untouched, Untouched) { return true; }
  template <class T>
  void construct(T*) {}
  template <class T, class... Arguments>
  void construct(T* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) T(std::forward<Arguments>(arguments)...);
  }
};

/// A message that came before its receive, for Mailbox.
struct KeptMessage {
  Rank source;
  Tag tag;
  DType type = DType::Float32;
  std::size_t size = 0;
  std::size_t received = 0;
  std::vector<std::byte, Untouched> bytes;  // empty for a phantom
  KeptMessage* next = nullptr;
};

/// Spares the heap the small kept messages: they and their buffers are reused.
class KeptMessages {
 public:
  KeptMessages() = default;
  KeptMessages(const KeptMessages&) = delete;
  ~KeptMessages() {
    while (free_ != nullptr) delete std::exchange(free_, free_->next);
  }
  /// A message with an empty buffer. It is given back to where it was taken.
  KeptMessage* take() {
    if (free_ == nullptr) return new KeptMessage;
    return std::exchange(free_, free_->next);
  }
  void give_back(KeptMessage* message) {
    message->bytes.clear();
    if (message->bytes.capacity() > kReusedBuffer) message->bytes = {};
    message->received = 0;
    message->next = std::exchange(free_, message);
  }

 private:
  static constexpr std::size_t kReusedBuffer = 64 << 10;
  KeptMessage* free_ = nullptr;
};

}  // namespace taxon::net
