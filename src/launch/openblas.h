#pragma once

#include <string_view>

#include "base/isa.h"

namespace taxon::launch {

/// The variable by which OpenBLAS is told its kernels; its own choice goes by the processor's model, and for
/// a model that came after it falls to SSE3's (Prescott), several times slower than the processor is: so
/// does 0.3.21, which Debian 12 has, on Intel's models from 2023 on.
inline constexpr const char* kOpenBlasCore = "OPENBLAS_CORETYPE";

/// The kernels that OpenBLAS uses in this process, in its words ("Haswell"); empty: there is no OpenBLAS.
std::string_view openblas_kernels();

/// Those that suit this processor better, as the variable wants them named; empty: none do.
std::string_view better_openblas_kernels();
/// The same where others are used, and the processor has such instructions.
std::string_view better_openblas_kernels(std::string_view used, Isa widest);

/// Has OpenBLAS choose again, by such a name, where that is better and nobody has set the variable, which is
/// set then: this process's children choose as it does. Of the whole process, so a program calls it, before
/// its first product and its first thread; a library doesn't.
void choose_openblas_kernels();

}  // namespace taxon::launch
