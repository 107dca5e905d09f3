#pragma once

#include <memory>

#include "model/framework_facts.h"
#include "model/model.h"

namespace taxon::model {

/// Rows of the model table. This header is free of the framework's headers.
std::unique_ptr<Model> build_mlp(const ModelContext& context);
std::unique_ptr<Model> build_lenet5(const ModelContext& context);
std::unique_ptr<Model> build_cnn(const ModelContext& context);
std::unique_ptr<Model> build_resnet18(const ModelContext& context);
/// The file of context.plan->torchscript.
std::unique_ptr<Model> build_script(const ModelContext& context);
/// The program of torch.export in the file of context.plan->name.
std::unique_ptr<Model> build_exported(const ModelContext& context);

/// What framework_facts() says in a build with libtorch.
FrameworkFacts facts_of_libtorch();

}  // namespace taxon::model
