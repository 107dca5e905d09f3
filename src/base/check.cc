#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace taxon {

void check_failed(const char* file, int line, const char* condition, const std::string& operands) {
  std::fprintf(stderr, "taxon: broken invariant at %s:%d: %s%s%s\n", file, line, condition,
               operands.empty() ? "" : ": ", operands.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace taxon
