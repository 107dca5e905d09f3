#include "codec/isa.h"

#include <vector>

namespace taxon::codec {
namespace {

std::vector<Isa> supported() {
  std::vector<Isa> list{Isa::Portable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) list.push_back(Isa::Avx2);
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

std::span<const Isa> paths() {
  static const std::vector<Isa> list = supported();
  return list;
}

Isa best_isa() { return paths().back(); }

}  // namespace taxon::codec
