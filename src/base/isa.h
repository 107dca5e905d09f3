#pragma once

#include <span>
#include <string_view>

namespace taxon {

/// Which instructions a kernel uses. All give the same bits, where the kernel's file is compiled without
/// products fused into sums (-ffp-contract=off).
enum class Isa { Portable, Avx2, Avx512 };
std::string_view name_of(Isa path);
/// The paths that this machine can run, from the slowest to the fastest.
std::span<const Isa> isa_paths();
/// The fastest of them.
Isa best_isa();

}  // namespace taxon

#define TAXON_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define TAXON_AVX2 __attribute__((target("avx2,f16c")))
#if defined(__clang__)  // which does not know the width as an attribute
#define TAXON_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")))
#else
#define TAXON_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c,prefer-vector-width=512")))
#endif
#endif

namespace taxon {

#if defined(__x86_64__)
template <class Kernel, class... Arguments>
TAXON_AVX2 auto run_avx2(Arguments... arguments) {
  return Kernel::run(arguments...);
}
template <class Kernel, class... Arguments>
TAXON_AVX512 auto run_avx512(Arguments... arguments) {
  return Kernel::run(arguments...);
}
#endif

/// Runs Kernel::run(arguments...), a static function that is always inlined and has plain loops, compiled for
/// the path: the compiler vectorises it. Arguments are copied.
template <class Kernel, class... Arguments>
auto run_on(Isa path, Arguments... arguments) {
#if defined(__x86_64__)
  if (path == Isa::Avx512) return run_avx512<Kernel>(arguments...);
  if (path == Isa::Avx2) return run_avx2<Kernel>(arguments...);
#endif
  return Kernel::run(arguments...);
}

}  // namespace taxon
