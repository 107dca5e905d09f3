#include "parallel/split_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace taxon::parallel {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Bytes of an all-reduce that a rank sends.
double summed(double bytes, int ranks) { return moved_bytes(Movement::AllReduce, bytes, ranks); }

class Chain {
 public:
  Chain(std::span<const SplitCandidate> layers, const SplitChoiceInput& input)
      : layers_(layers), input_(input) {}

  /// Of the layer alone: gradients of its weights, and sums that it needs of itself.
  double own(const SplitCandidate& layer, const SplitRow& row) const {
    const double weights = layer.weights * input_.element_bytes;
    const bool partial = row.weight_gradient == kPartial;
    double bytes = partial && input_.in_strips
                       ? summed(weights, input_.members * input_.replicas)
                       : summed(row.divides_weights ? weights / input_.members : weights, input_.replicas);
    if (partial && !input_.in_strips) bytes += summed(weights, input_.members);
    if (sums(layer, row)) bytes += summed(activations(layer.outputs), input_.members);
    if (layer.inside > 0 && row.output == kPartial)
      bytes += between(find_split("pairs"), find_split("inputs"), layer.inside);
    return bytes;
  }
  /// Between a layer and the one before; null: the samples.
  double before(const SplitCandidate& layer, const SplitRow& row, const SplitCandidate* producer,
                const SplitRow* produced_by) const {
    const bool takes_samples = row.input == kReplicated || row.by_samples();
    if (!producer) return takes_samples ? 0 : kNever;
    return between(left_by(*producer, *produced_by), row, layer.inputs);
  }
  double to_loss(const SplitRow& row) const {
    return between(left_by(layers_.back(), row), find_split("none"), layers_.back().outputs);
  }

 private:
  static bool sums(const SplitCandidate& layer, const SplitRow& row) {
    return layer.needs_sums && row.output == kPartial;
  }
  const SplitRow& left_by(const SplitCandidate& layer, const SplitRow& row) const {
    return sums(layer, row) ? find_split("none") : row;
  }
  double between(const SplitRow& producer, const SplitRow& consumer, double elements) const {
    const auto found = boundary(producer, consumer);
    if (!found) return kNever;
    const double bytes = activations(elements);
    return moved_bytes(found->forward, bytes, input_.members) +
           moved_bytes(found->backward, bytes, input_.members);
  }
  double activations(double elements) const { return elements * input_.samples * input_.element_bytes; }

  std::span<const SplitCandidate> layers_;
  const SplitChoiceInput& input_;
};

}  // namespace

std::vector<SplitChoice> choose_splits(std::span<const SplitCandidate> layers,
                                       const SplitChoiceInput& input) {
  if (layers.empty()) return {};
  const Chain chain(layers, input);
  // Fewest bytes of all layers up to this row of this one, and of all behind it.
  std::vector<std::vector<double>> until, after(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    until.emplace_back();
    for (const SplitRow* row : layers[i].rows) {
      double least = i == 0 ? chain.before(layers[i], *row, nullptr, nullptr) : kNever;
      for (std::size_t p = 0; i > 0 && p < layers[i - 1].rows.size(); ++p)
        least = std::min(
            least, until[i - 1][p] + chain.before(layers[i], *row, &layers[i - 1], layers[i - 1].rows[p]));
      until[i].push_back(least + chain.own(layers[i], *row));
    }
  }
  for (std::size_t i = layers.size(); i-- > 0;)
    for (const SplitRow* row : layers[i].rows) {
      const bool is_last = i + 1 == layers.size();
      double least = is_last ? chain.to_loss(*row) : kNever;
      for (std::size_t n = 0; !is_last && n < layers[i + 1].rows.size(); ++n) {
        const SplitRow& next = *layers[i + 1].rows[n];
        least = std::min(least, chain.before(layers[i + 1], next, &layers[i], row) +
                                    chain.own(layers[i + 1], next) + after[i + 1][n]);
      }
      after[i].push_back(least);
    }
  std::vector<SplitChoice> choices;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    SplitChoice& choice = choices.emplace_back();
    double best = kNever;
    for (std::size_t r = 0; r < layers[i].rows.size(); ++r) {
      const SplitRow& row = *layers[i].rows[r];
      choice.bytes.push_back(until[i][r] + after[i][r]);
      // Behind what was chosen before, so that equally good choices don't mix.
      const SplitCandidate* producer = i == 0 ? nullptr : &layers[i - 1];
      const SplitRow* produced_by = i == 0 ? nullptr : choices[i - 1].row;
      const double bytes =
          chain.before(layers[i], row, producer, produced_by) + chain.own(layers[i], row) + after[i][r];
      if (bytes >= best) continue;
      best = bytes;
      choice.row = &row;
    }
    if (!choice.row)
      throw Error(
          ErrorKind::Usage,
          fmt::format("no split of {} goes with those of its neighbours; leave the choice to mesh.splits: "
                      "[auto] for more layers, or name others",
                      layers[i].name));
  }
  return choices;
}

std::string describe(std::span<const SplitCandidate> layers, std::span<const SplitChoice> choices,
                     const SplitChoiceInput& input) {
  std::string table = fmt::format(
      "splits over {} members: bytes that one sends in a step by how a layer is split, the others then at "
      "best",
      input.members);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::string bytes;
    for (std::size_t r = 0; r < layers[i].rows.size(); ++r) {
      const double sent = choices[i].bytes[r];
      bytes += sent == kNever ? fmt::format("  {} -", layers[i].rows[r]->name)
                              : fmt::format("  {} {:.3f} MB", layers[i].rows[r]->name, sent / 1e6);
    }
    table += fmt::format("\n  {:<12} {:>10.0f} weights: {:<8}{}", layers[i].name, layers[i].weights,
                         choices[i].row->name, bytes);
  }
  return table;
}

}  // namespace taxon::parallel
