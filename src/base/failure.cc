#include "base/failure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <string_view>
#include <system_error>

namespace taxon {
namespace {

constexpr const char* kMoreMemory =
    "memory ran out: a smaller batch, more micro-batches or fewer workers on this host need less "
    "(taxon train --dry-run says how much), or raise the limit (ulimit -v, or the container's)";

/// libtorch has no exception type for it.
bool is_torch_out_of_memory(std::string_view what) {
  return what.find("DefaultCPUAllocator") != std::string_view::npos;
}

/// An errno that a limit of its own stands behind.
struct Advice {
  int error;
  const char* text;
};
constexpr Advice kAdvice[] = {
    {EAGAIN, "raise ulimit -u, or the container's limit of processes and threads"},
    {EMFILE, "raise ulimit -n"},
    {ENFILE, "the whole machine has too many open files: raise fs.file-max"},
    {EFBIG, "raise ulimit -f"},
    {ENOMEM, "raise the limit of memory (ulimit -v, or the container's)"},
};

std::string with_advice(const std::string& what, int error) {
  for (const Advice& advice : kAdvice)
    if (advice.error == error) return what + ": " + advice.text;
  return what;
}

}  // namespace

bool is_exhaustion(int error) {
  return error == ENOMEM || error == EAGAIN || error == EMFILE || error == ENFILE || error == EFBIG ||
         error == ENOBUFS;
}

bool may_map(std::size_t bytes) {
  void* const volatile room = std::malloc(bytes);  // volatile, or a compiler takes both calls away
  std::free(room);
  return room != nullptr;
}

ErrorKind kind_of(int error, ErrorKind otherwise) {
  return is_exhaustion(error) ? ErrorKind::Resources : otherwise;
}

Error error_from(const std::exception& exception) {
  const std::string what = exception.what();
  auto* known = dynamic_cast<const Error*>(&exception);
  if (dynamic_cast<const std::bad_alloc*>(&exception) ||
      ((!known || known->kind() == ErrorKind::Internal) && is_torch_out_of_memory(what)))
    return Error(ErrorKind::Resources, kMoreMemory);
  if (known) return *known;
  if (auto* system = dynamic_cast<const std::system_error*>(&exception);
      system && (system->code().category() == std::generic_category() ||
                 system->code().category() == std::system_category()))
    return Error(kind_of(system->code().value(), ErrorKind::Internal),
                 with_advice(what, system->code().value()));
  return Error(ErrorKind::Internal, what);
}

void end_uncaught(void (*say)(const std::string& line)) {
  try {
    try {
      if (auto current = std::current_exception()) std::rethrow_exception(current);
    } catch (const std::exception& thrown) {
      const Error error = error_from(thrown);
      if (error.kind() == ErrorKind::Resources) {
        say(fmt::format("{}: {}", to_string(error.kind()), error.what()));
        _exit(exit_code(error.kind()));
      }
      say(fmt::format("ended by an exception that nobody expects: {}", error.what()));
    }
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kLine =
        "taxon: resources: memory ran out: fewer workers on this host need less, or raise the limit\n";
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
    _exit(exit_code(ErrorKind::Resources));
  } catch (...) {
  }
  std::abort();
}

}  // namespace taxon
