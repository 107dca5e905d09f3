// Preloaded into a side (LD_PRELOAD): counts the bytes that its process copies, by the C library's functions
// in user space and by system calls between user space and the kernel. Small copies are headers and
// bookkeeping, so they are left out.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace {

constexpr std::size_t kSmallest = 2048;

struct Counters {
  std::atomic<std::uint64_t> user{0}, kernel{0};
};
Counters counters;

void add(std::atomic<std::uint64_t>& counter, std::size_t bytes) {
  if (bytes >= kSmallest) counter.fetch_add(bytes, std::memory_order_relaxed);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void* copy(void* to, const void* from, std::size_t size) {
  // Not the next memcpy: the dynamic linker itself copies before that can be looked up.
  void* const result = to;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
  return result;
}

void* move(void* to, const void* from, std::size_t size) {
  auto* target = static_cast<char*>(to);
  auto* source = static_cast<const char*>(from);
  if (target <= source || target >= source + size) return copy(to, from, size);
  for (std::size_t i = size; i > 0; --i) {
    target[i - 1] = source[i - 1];
    asm volatile("" : : : "memory");  // or the compiler would call memmove
  }
  return to;
}

ssize_t counted(ssize_t bytes) {
  if (bytes > 0) add(counters.kernel, static_cast<std::size_t>(bytes));
  return bytes;
}

}  // namespace

extern "C" {

/// Since the start.
std::uint64_t bench_copied_in_user_space() { return counters.user.load(); }
std::uint64_t bench_copied_by_the_kernel() { return counters.kernel.load(); }

void* memcpy(void* to, const void* from, std::size_t size) noexcept {
  add(counters.user, size);
  return copy(to, from, size);
}
void* memmove(void* to, const void* from, std::size_t size) noexcept {
  add(counters.user, size);
  return move(to, from, size);
}
void* __memcpy_chk(void* to, const void* from, std::size_t size, std::size_t) noexcept {
  return memcpy(to, from, size);
}
void* __memmove_chk(void* to, const void* from, std::size_t size, std::size_t) noexcept {
  return memmove(to, from, size);
}

ssize_t read(int fd, void* data, std::size_t size) {
  static auto* const real = next<decltype(read)>("read");
  return counted(real(fd, data, size));
}
ssize_t write(int fd, const void* data, std::size_t size) {
  static auto* const real = next<decltype(write)>("write");
  return counted(real(fd, data, size));
}
ssize_t readv(int fd, const iovec* parts, int count) {
  static auto* const real = next<decltype(readv)>("readv");
  return counted(real(fd, parts, count));
}
ssize_t writev(int fd, const iovec* parts, int count) {
  static auto* const real = next<decltype(writev)>("writev");
  return counted(real(fd, parts, count));
}
ssize_t send(int fd, const void* data, std::size_t size, int flags) {
  static auto* const real = next<decltype(send)>("send");
  return counted(real(fd, data, size, flags));
}
ssize_t recv(int fd, void* data, std::size_t size, int flags) {
  static auto* const real = next<decltype(recv)>("recv");
  return counted(real(fd, data, size, flags));
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const real = next<decltype(sendmsg)>("sendmsg");
  return counted(real(fd, message, flags));
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const real = next<decltype(recvmsg)>("recvmsg");
  return counted(real(fd, message, flags));
}
}
