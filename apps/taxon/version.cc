#include "apps/taxon/version.h"

#include <fmt/format.h>

#include <string_view>

#include "apps/taxon/blas_speed.h"
#include "apps/taxon/ucx_transports.h"

namespace taxon::app {
namespace {

// Set by the build. libtorch's own header names its branch, not its release.
constexpr const char* kVersion = TAXON_VERSION;
constexpr const char* kTorchVersion = TAXON_TORCH_VERSION;
constexpr const char* kBuildType = TAXON_BUILD_TYPE;
constexpr const char* kSanitizers = TAXON_SANITIZERS;

}  // namespace

std::string version_number() { return kVersion; }

std::string version_text() {
  Blas blas = find_blas();
  std::string_view sanitizers = kSanitizers;
  return fmt::format(
      "taxon: {}\n"
      "libtorch: {}\n"
      "BLAS: {}\n"
      "UCX: {}\n"
      "compiler: g++ {}\n"
      "build: {}\n"
      "sanitizers: {}",
      kVersion, kTorchVersion, blas.library.empty() ? "none" : fmt::format("{} {}", blas.library, blas.build),
      ucx_version(), __VERSION__, kBuildType, sanitizers.empty() ? "none" : sanitizers);
}

}  // namespace taxon::app
