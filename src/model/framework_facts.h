#pragma once

#include <string>

namespace taxon::model {

/// The library that models compute with, in its own words. Empty: it has none of it, or says nothing.
struct FrameworkFacts {
  std::string version;       // "2.15.0"; empty: this build has no such library
  std::string onednn;        // version of the library of convolutions inside
  std::string instructions;  // the widest that its own kernels use here: "AVX2"
};

FrameworkFacts framework_facts();

}  // namespace taxon::model
