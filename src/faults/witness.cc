#include "faults/witness.h"

#include <xxhash.h>

namespace taxon::faults {

model::StepOutput Witness::forward_backward(const model::StepInput& input, int from, tensor::Marks& marks) {
  View bytes = weights_->bytes();
  if (!in_pieces_) testimony_.weights.push_back(XXH64(bytes.data(), bytes.size(), 0));
  in_pieces_ = from > 0;
  return inner_->forward_backward(input, from, marks);
}

}  // namespace taxon::faults
