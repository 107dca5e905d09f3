#include "launch/openblas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace taxon::launch {
namespace {

using Name = char* (*)();
using Action = void (*)();

template <class Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

std::string_view openblas_kernels() {
  const auto name = find<Name>("openblas_get_corename");
  return name == nullptr ? std::string_view() : name();
}

std::string_view better_openblas_kernels() {
#if defined(__x86_64__)
  // Haswell's have what our own kernels do without: products that are fused into sums.
  if (__builtin_cpu_supports("fma")) return better_openblas_kernels(openblas_kernels(), best_isa());
#endif
  return {};
}

std::string_view better_openblas_kernels(std::string_view used, Isa widest) {
  constexpr std::string_view kOlderThanAvx[] = {
      "Katmai",     "Coppermine", "Northwood", "Prescott", "Banias",       "Atom",      "Core2",  "Penryn",
      "Dunnington", "Nehalem",    "Athlon",    "Opteron",  "Opteron_SSE3", "Barcelona", "Bobcat", "Nano"};
  if (std::ranges::find(kOlderThanAvx, used) == std::end(kOlderThanAvx)) return {};
  constexpr std::string_view kBetter[] = {"", "Haswell", "SkylakeX"};  // by Isa
  return kBetter[static_cast<int>(widest)];
}

void choose_openblas_kernels() {
  // Of its own initialiser; one that was built for a single processor has none.
  const auto forget = find<Action>("gotoblas_dynamic_quit"), choose = find<Action>("gotoblas_dynamic_init");
  if (forget == nullptr || choose == nullptr || std::getenv(kOpenBlasCore) != nullptr) return;
  const std::string_view better = better_openblas_kernels();
  if (better.empty()) return;
  setenv(kOpenBlasCore, std::string(better).c_str(), 1);
  forget();
  choose();
}

}  // namespace taxon::launch
