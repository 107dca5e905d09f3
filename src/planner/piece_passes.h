#pragma once

#include <functional>
#include <vector>

#include "model/staged.h"
#include "tensor/arena.h"

namespace taxon::planner {

/// The passes of a member's part of a model whose layers are split, piece by piece, with nobody there who
/// moves anything between them: what the others would hand on is copies of what the member itself has, so
/// that numbers are as large as in training.
class PiecePasses {
 public:
  /// `model` is divided and bound, and outlives this. Passes of so many samples; `type`: it computes in.
  PiecePasses(model::Model& model, std::int64_t samples, DType type);

  /// Of each segment, in seconds of a pass of all samples: where the member passes its part of them alone,
  /// what all of them would take.
  struct Times {
    std::vector<double> forward, backward;
  };
  /// One step, of as many samples. `now`: what the time is, in seconds.
  Times pass(const model::StepInput& input, const std::function<double()>& now, tensor::Milestones& marks);

 private:
  /// What a piece takes and leaves, and the gradients of both.
  struct Buffers {
    tensor::Arena inputs, outputs, input_gradients, output_gradients;
  };
  /// Divides a piece's time among its segments, by their operations. Where it has none it is the last one's
  /// before it.
  void share(std::size_t piece, double seconds, std::vector<double>& segments) const;

  model::Staged& staged_;
  const model::ModelSpec& spec_;
  std::vector<double> scale_;  // [segment] of its time: all samples over those of its piece
  std::vector<Buffers> buffers_;
};

}  // namespace taxon::planner
