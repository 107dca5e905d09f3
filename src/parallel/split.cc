#include "parallel/split.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace taxon::parallel {

std::span<const SplitRow> split_table() {
  static constexpr SplitRow kRows[] = {
      // Data parallelism inside the group.
      {.name = "samples",
       .sentence = "each member has all weights, and its samples",
       .source = "Valiant, CACM 1990",
       .input = kBySamples,
       .output = kBySamples,
       .output_gradient = kBySamples,
       .input_gradient = kBySamples,
       .weight_gradient = kPartial},
      // Y_i = X A_i. Each member's gradient of X is what its columns add to it.
      {.name = "outputs",
       .sentence = "each member has the weights of some output features",
       .source = "Das et al., arXiv 1602.06709; Shoeybi et al., arXiv 1909.08053 (columns)",
       .divides_weights = true,
       .of_matrices = 0,
       .of_vectors = 0,
       .input = kReplicated,
       .output = kByFeatures,
       .output_gradient = kByFeatures,
       .input_gradient = kPartial,
       .weight_gradient = kReplicated},
      // Y = sum of X_i A_i.
      {.name = "inputs",
       .sentence = "each member has the weights of some input features",
       .source = "Shoeybi et al., arXiv 1909.08053 (rows)",
       .divides_weights = true,
       .of_matrices = 1,
       .input = kByFeatures,
       .output = kPartial,
       .output_gradient = kReplicated,
       .input_gradient = kByFeatures,
       .weight_gradient = kReplicated},
      // Of what has one number for each feature: norms whose statistics are a feature's own.
      {.name = "features",
       .sentence = "each member has what belongs to its features",
       .source = "batch norm between the layers of a pair",
       .divides_weights = true,
       .of_vectors = 0,
       .input = kByFeatures,
       .output = kByFeatures,
       .output_gradient = kByFeatures,
       .input_gradient = kByFeatures,
       .weight_gradient = kReplicated},
      // A layer by outputs and the next by inputs, and whatever stands between and before them.
      {.name = "pairs",
       .sentence = "each member has some heads, or hidden features of two layers",
       .source = "Shoeybi et al., arXiv 1909.08053 (attention, perceptron)",
       .divides_weights = true,
       .input = kReplicated,
       .output = kPartial,
       .output_gradient = kReplicated,
       .input_gradient = kPartial,
       .weight_gradient = kReplicated},
      // E[token], the product of a row of one-hot inputs with E, by inputs; tokens are everybody's and have
      // no
      // gradient.
      {.name = "vocabulary",
       .sentence = "each member has the embeddings of some tokens",
       .source = "Shoeybi et al., arXiv 1909.08053 (embeddings)",
       .divides_weights = true,
       .of_matrices = 0,
       .input = kReplicated,
       .output = kPartial,
       .output_gradient = kReplicated,
       .input_gradient = kReplicated,
       .weight_gradient = kReplicated},
      {.name = "none",
       .sentence = "each member computes all of it",
       .source = "norms and losses between split layers",
       .input = kReplicated,
       .output = kReplicated,
       .output_gradient = kReplicated,
       .input_gradient = kReplicated,
       .weight_gradient = kReplicated},
  };
  return kRows;
}

const SplitRow& find_split(std::string_view name, std::span<const SplitRow> own) {
  std::vector<std::string> names;
  for (std::span<const SplitRow> rows : {own, split_table()})
    for (const SplitRow& row : rows) {
      if (row.name == name) return row;
      names.emplace_back(row.name);
    }
  throw Error(ErrorKind::Usage,
              fmt::format("there is no split \"{}\"; there are {}", name, fmt::join(names, ", ")));
}

std::optional<Boundary> boundary(const SplitRow& producer, const SplitRow& consumer) {
  const auto forward = movement(producer.output, consumer.input);
  const auto backward = movement(consumer.input_gradient, producer.output_gradient);
  if (!forward || !backward) return std::nullopt;
  return Boundary{*forward, *backward};
}

}  // namespace taxon::parallel
