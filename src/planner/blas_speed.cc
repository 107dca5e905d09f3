#include "planner/blas_speed.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

namespace taxon::planner {
namespace {

// The Fortran interface is what libtorch calls, so whatever answers to this name is what training uses.
using Sgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const float*,
                       const float*, const int*, const float*, const int*, const float*, float*, const int*);

Sgemm find_sgemm() {
  void* found = dlsym(RTLD_DEFAULT, "sgemm_");
  if (found == nullptr) {
    void* library = dlopen("libblas.so.3", RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) found = dlsym(library, "sgemm_");
  }
  return reinterpret_cast<Sgemm>(found);
}

/// What the library says about itself; empty: nothing that is understood.
std::string description() {
  using OpenBlas = const char* (*)();
  if (auto describe = reinterpret_cast<OpenBlas>(dlsym(RTLD_DEFAULT, "openblas_get_config")))
    return describe();
  using Mkl = void (*)(char*, int);
  if (auto describe = reinterpret_cast<Mkl>(dlsym(RTLD_DEFAULT, "MKL_Get_Version_String"))) {
    char text[200] = "";
    describe(text, sizeof text - 1);
    const std::string words = text;
    return words.substr(0, words.find(" for "));
  }
  return {};
}

double time_product(Sgemm sgemm, int n) {
  std::vector<float> a(static_cast<std::size_t>(n) * n, 0.5f), b = a, c(a.size());
  const float one = 1, zero = 0;
  auto begin = std::chrono::steady_clock::now();
  sgemm("N", "N", &n, &n, &n, &one, a.data(), &n, b.data(), &n, &zero, c.data(), &n);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Blas find_blas() {
  Blas blas;
  Sgemm sgemm = find_sgemm();
  Dl_info where{};
  if (sgemm == nullptr || dladdr(reinterpret_cast<void*>(sgemm), &where) == 0) return blas;
  std::error_code ignored;
  auto real = std::filesystem::canonical(where.dli_fname, ignored);
  blas.library = ignored ? where.dli_fname : real.string();
  blas.in_libtorch = std::filesystem::path(blas.library).filename().string().starts_with("libtorch");
  blas.build = description();
  constexpr int kPthreads = 1;  // openblas_get_parallel(): 0 serial, 1 threads of its own, 2 OpenMP
  using Parallel = int (*)();
  if (auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "openblas_get_parallel")))
    blas.own_threads = parallel() == kPthreads;
  return blas;
}

Blas measure_blas() {
  Blas blas = find_blas();
  if (blas.library.empty()) return blas;
  constexpr int kSize = 512;
  constexpr double kFlops = 2.0 * kSize * kSize * kSize;
  Sgemm sgemm = find_sgemm();
  time_product(sgemm, kSize);  // starts the library's threads
  std::vector<double> all;
  for (double spent = 0; spent < 0.4; spent += all.back()) all.push_back(time_product(sgemm, kSize));
  std::sort(all.begin(), all.end());
  blas.gflops = kFlops / all.front() * 1e-9;
  blas.median_gflops = kFlops / all[all.size() / 2] * 1e-9;
  return blas;
}

void set_blas_threads(int threads) {
  if (find_sgemm() == nullptr) return;
  using Set = void (*)(int);
  if (auto set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) set(threads);
}

double matrix_speed(double seconds) {
  constexpr int kSize = 512;
  Sgemm sgemm = find_sgemm();
  if (sgemm == nullptr) return 0;
  double spent = 0;
  int products = 0;
  for (time_product(sgemm, kSize); spent < seconds; ++products) spent += time_product(sgemm, kSize);
  return 2.0 * kSize * kSize * kSize * products / spent;
}

}  // namespace taxon::planner
