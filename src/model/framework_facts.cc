#include "model/framework_facts.h"

#if TAXON_WITH_TORCH
#include "model/torch/builders.h"
#endif

namespace taxon::model {

#if TAXON_WITH_TORCH
FrameworkFacts framework_facts() { return facts_of_libtorch(); }
#else
FrameworkFacts framework_facts() { return {}; }
#endif

}  // namespace taxon::model
