#pragma once

#include <memory>

#include "model/framework_facts.h"
#include "model/model.h"

namespace taxon::model {

// This header is free of the framework's headers.

/// The file of context.plan->torchscript.
std::unique_ptr<Model> build_script(const ModelContext& context);
/// The program of torch.export in the file of context.plan->name.
std::unique_ptr<Model> build_exported(const ModelContext& context);

/// What framework_facts() says in a build with libtorch.
FrameworkFacts facts_of_libtorch();

}  // namespace taxon::model
