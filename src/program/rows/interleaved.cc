#include <fmt/format.h>

#include <algorithm>

#include "program/rows/order.h"

namespace taxon::program {
namespace {

struct InterleavedOptions {
  int chunks = 2;
};
template <plan::Like<InterleavedOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "chunks", .sentence = "Stages of a rank.", .min = 1, .max = 1024}, o.chunks);
}

struct Interleaved {
  using Options = InterleavedOptions;
  static int ranks(const Shape& shape, const Options& options) { return shape.stages / options.chunks; }
  static void require(const Shape& shape, const Options& options, std::vector<std::string>& problems) {
    if (shape.stages % options.chunks != 0) {
      problems.push_back(fmt::format("schedule interleaved: {} stages are no multiple of chunks ({})",
                                     shape.stages, options.chunks));
      return;
    }
    if (const int p = ranks(shape, options); shape.micros % p != 0)
      problems.push_back(
          fmt::format("schedule interleaved needs micro-batches that its ranks divide: {} is no multiple of "
                      "{} ranks ({} stages, {} a rank)",
                      shape.micros, p, shape.stages, options.chunks));
  }

  /// The k-th forward pass of a rank, and the k-th backward pass: p micro-batches go through one chunk, then
  /// the same through the next.
  struct Order {
    int p, chunks, rank;
    Action forward(int k) const {
      const int chunk = k / p % chunks, micro = k / (p * chunks) * p + k % p;
      return {ActionKind::Forward, chunk * p + rank, micro};
    }
    Action backward(int k) const {
      const Action mirrored = forward(k);
      return {ActionKind::Backward, (chunks - 1 - mirrored.stage / p) * p + rank, mirrored.micro};
    }
  };

  static std::vector<Action> actions(const Shape& shape, int rank, const Options& options) {
    const int p = ranks(shape, options), passes = shape.micros * options.chunks;
    const Order order{p, options.chunks, rank};
    // Until the first backward pass there is time for p micro-batches in every chunk but the last, and on
    // the way to the last rank and back.
    const int ahead = std::min(2 * (p - rank - 1) + (options.chunks - 1) * p, passes);
    std::vector<Action> all;
    for (int k = 0; k < ahead; ++k) all.push_back(order.forward(k));
    for (int k = ahead; k < passes; ++k) {
      all.push_back(order.forward(k));
      all.push_back(order.backward(k - ahead));
    }
    for (int k = passes - ahead; k < passes; ++k) all.push_back(order.backward(k));
    return with_flush(std::move(all));
  }
};

}  // namespace

/// Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC
/// 2021: each rank has `chunks` stages that are not neighbours, which cuts the bubble by as much and sends as
/// many times more. Two stages a rank, the second marked by ':
///
///     rank 0  F0  F1  F0' F1' .   .   B0' --- .   B1' --- B0  --- B1  ---
///     rank 1  .   F0  F1  F0' B0' --- F1' B1' --- B0  --- B1  --- .   .
ScheduleRow interleaved() {
  return schedule_row<Interleaved>({.name = "interleaved",
                                    .sentence = "1f1b with several stages a rank",
                                    .source = "Narayanan et al., SC 2021 (Megatron-LM)",
                                    .bubble = "(p-1)/(m v+p-1)",
                                    .activations = "at most p v+p-1-2r"});
}

}  // namespace taxon::program
