#include "launch/heap.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <initializer_list>

namespace taxon::launch {
namespace {

const void* object_of(const char* symbol) {
  Dl_info info{};
  const void* const address = dlsym(RTLD_DEFAULT, symbol);
  return address && dladdr(address, &info) ? info.dli_fbase : nullptr;
}

bool is_malloc_of_glibc() { return object_of("malloc") == object_of("gnu_get_libc_version"); }

/// Nothing else that wants addresses may be left without.
bool are_addresses_free() {
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return false;
  }
  int mode = 2;  // strict
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  return mode != 2;
}

void keep_freed_memory() {
  mallopt(M_ARENA_MAX, 1);  // other threads' heaps are unmapped where they are free, whatever is asked for
  mallopt(M_MMAP_MAX, 0);   // what is mapped for itself is unmapped when it is freed
  mallopt(M_TRIM_THRESHOLD, -1);  // never
}

/// Advice is of addresses that are mapped, so the heap grows at once to what it may become; its pages still
/// come when they are first written.
void ask_for_huge_pages() {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t half = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) / 2 * page;
  const auto begin = (reinterpret_cast<std::uintptr_t>(sbrk(0)) + page - 1) / page * page;
  void* volatile reserved = std::malloc(half);  // volatile, or compilers leave out the pair
  std::free(reserved);
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0)) / page * page;
  if (begin < end)
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // a refusal only costs speed
}

}  // namespace

std::string huge_pages_mode(const std::string& file) {
  std::ifstream modes(file);  // the one that holds is in brackets
  for (std::string word; modes >> word;)
    if (word.starts_with('[') && word.ends_with(']')) return word.substr(1, word.size() - 2);
  return "unknown";
}

bool are_huge_pages_given(const std::string& mode) { return mode == "always" || mode == "madvise"; }

void tune_heap() {
  if (!is_malloc_of_glibc()) return;
  keep_freed_memory();
  if (are_addresses_free()) ask_for_huge_pages();
}

}  // namespace taxon::launch
