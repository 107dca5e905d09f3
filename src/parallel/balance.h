#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/network.h"
#include "plan/choice.h"

namespace taxon::parallel {

/// The balance equations of PCL-DNN: Das et al., "Distributed deep learning using synchronous stochastic
/// gradient descent", arXiv 1602.06709. N workers stand in G groups of N/G; inside a group a layer is split
/// by output features over B/G samples, between groups the N/G-th parts of its weights are summed:
///
///     Comm(G) = 2 size inputs B/G            forward gather and backward reduction; 0 if G = N
///             + size weights (2 - overlap) G/N   gradients out, weights back;       0 if G = 1
///
/// bytes of a worker and a step. G = N is data parallelism, G = 1 model parallelism.
struct BalanceInput {
  int workers = 1;           // N
  std::int64_t batch = 1;    // B: samples of a step
  double element_bytes = 4;  // size
  double overlap = 0;        // how much of the sending hides behind receiving: 0 to 1
};

/// REQUIRES: groups divides workers.
double exchanged_bytes(const Layer& layer, const BalanceInput& input, int groups);

/// What a layer's split is called.
enum class Split { Data, Model, Hybrid, Replicated };

/// One layer's line.
struct LayerBalance {
  const Layer* layer = nullptr;
  double flops = 0;         // of a worker and a step
  double data_bytes = 0;    // G = N
  double model_bytes = 0;   // G = 1
  double ideal_groups = 0;  // where Comm(G) is least, as a real number; 0: it has no weights
  int rounded_groups = 0;   // the better of the two divisors of N around it
  int groups = 0;           // the best of all divisors of N that are possible: the choice
  double bytes = 0;         // of the choice
  Split split = Split::Data;
  /// Computation by communication, flops for each byte; none: nothing is sent.
  std::optional<double> data_ratio() const { return ratio(data_bytes); }
  std::optional<double> chosen_ratio() const { return ratio(bytes); }

 private:
  std::optional<double> ratio(double sent) const {
    return sent > 0 ? std::optional(flops / sent) : std::nullopt;
  }
};

/// True if the layer can stand in so many groups: it has as many features as a group has workers, and every
/// group has a sample.
bool is_possible(const Layer& layer, const BalanceInput& input, int groups);

/// What makes no sense, one sentence each; layers that no number of groups divides are among it.
std::vector<std::string> balance_problems(const Network& network, const BalanceInput& input);

/// Of each layer, in their order. Layers without weights of their own follow the layer before (Replicated if
/// there is none). Throws Error{Usage} that lists balance_problems(). The network outlives the result.
std::vector<LayerBalance> balance(const Network& network, const BalanceInput& input);

/// Ascending.
std::vector<int> divisors(int number);

}  // namespace taxon::parallel

template <>
struct taxon::plan::Words<taxon::parallel::Split> {
  static constexpr std::string_view all[] = {"data", "model", "hybrid", "replicated"};
};
