#pragma once

#include <string>

namespace taxon::planner {

/// The BLAS that this process's matrix products go to, libtorch's included.
struct Blas {
  std::string library;       // real path of the shared object; empty: there is none
  std::string build;         // what the library says about itself, if it does
  bool in_libtorch = false;  // a part of libtorch, which no system setting replaces
  bool own_threads = false;  // keeps a thread pool of its own beside libtorch's OpenMP threads
  double gflops = 0;         // float32 matrix product, best of several
  double median_gflops = 0;  // of the same products
};

/// Finds the library without using it.
Blas find_blas();
/// The same and its speed: multiplies matrices for about half a second with the library's own threads.
Blas measure_blas();
/// Sets the threads of the library's own pool, if it has one.
void set_blas_threads(int threads);
/// Operations per second of a float32 matrix product of this process, over at least `seconds`; 0 without a
/// library.
double matrix_speed(double seconds);

}  // namespace taxon::planner
