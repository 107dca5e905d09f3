#include "base/version.h"

namespace taxon {

std::string version_number() { return TAXON_VERSION; }  // set by the build

}  // namespace taxon
