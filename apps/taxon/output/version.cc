#include "apps/taxon/output/version.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/version.h"
#include "launch/openblas.h"
#include "model/framework_facts.h"
#include "net/ucx/transports.h"
#include "planner/blas_speed.h"

namespace taxon::app {
namespace {

// Set by the build.
constexpr const char* kBuildType = TAXON_BUILD_TYPE;
constexpr const char* kSanitizers = TAXON_SANITIZERS;

std::vector<std::pair<std::string, std::string>> version_facts() {
  const planner::Blas blas = planner::find_blas();
  const model::FrameworkFacts framework = model::framework_facts();
  const std::string sanitizers = kSanitizers;
  const char* kernels = std::getenv(launch::kOpenBlasCore);
  return {{"taxon", version_number()},
          {"libtorch", framework.version},
          {"BLAS", blas.library.empty() ? "none" : fmt::format("{} {}", blas.library, blas.build)},
          {launch::kOpenBlasCore, kernels != nullptr ? kernels : "not set"},
          {"oneDNN", framework.onednn.empty() ? "none" : framework.onednn},
          {"UCX", net::ucx_version()},
          {"compiler", fmt::format("g++ {}", __VERSION__)},
          {"build", kBuildType},
          {"sanitizers", sanitizers.empty() ? "none" : sanitizers}};
}

}  // namespace

std::string version_text() {
  std::string text;
  for (const auto& [name, value] : version_facts())
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", name, value);
  return text;
}

std::string version_json() {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : version_facts()) json[name] = value;
  return json.dump(2);
}

}  // namespace taxon::app
