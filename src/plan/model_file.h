#pragma once

#include <string>
#include <string_view>

#include "plan/field.h"
#include "plan/plan.h"
#include "plan/text.h"

namespace taxon::plan {

/// What comes first of what a model of a file gives.
enum class ModelReturns : std::uint8_t { Logits, Loss };
template <>
struct Words<ModelReturns> {
  static constexpr std::string_view all[] = {"logits", "loss"};
};

/// Keys of `model` that those of files have, as rows of the model table have theirs.
struct ModelFileOptions {
  ModelReturns returns = ModelReturns::Logits;
};
template <Like<ModelFileOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(Field{.key = "returns",
              .sentence = "What the model gives, alone or first of several: logits (numbers, where targets "
                          "are real); or loss, of the inputs and then the labels, the mean over a batch's "
                          "samples, after which logits may come."},
        o.returns);
}

/// Whether the plan's model is a file: a TorchScript one, or as below.
bool comes_in_a_file(const ModelPlan& model);
/// Whether model.name is the path of a file, a program of torch.export, rather than a row of the model table:
/// it ends in ".pt2".
bool is_model_file(std::string_view name);

/// What profiles and reports call the plan's model: its row, or its file's name without folder and ending.
std::string model_label(const ModelPlan& model);

}  // namespace taxon::plan
