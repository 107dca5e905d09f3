#include "base/isa.h"

#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace taxon {
namespace {

#if defined(__x86_64__)
/// Not of __builtin_cpu_supports, whose clang knows no "f16c".
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

std::vector<Isa> supported() {
  std::vector<Isa> list{Isa::Portable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && has_f16c()) list.push_back(Isa::Avx2);
  if (list.size() == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    list.push_back(Isa::Avx512);
#endif
  return list;
}

}  // namespace

std::string_view name_of(Isa path) {
  constexpr std::string_view kNames[] = {"portable", "avx2", "avx512"};
  return kNames[static_cast<int>(path)];
}

std::span<const Isa> isa_paths() {
  static const std::vector<Isa> list = supported();
  return list;
}

Isa best_isa() { return isa_paths().back(); }

}  // namespace taxon
