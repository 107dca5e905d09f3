#include "train/activations.h"

namespace taxon::train {

ActivationPool::Lent ActivationPool::lend(std::size_t elements) {
  auto found = free_.lower_bound(elements);
  std::unique_ptr<tensor::Arena> arena;
  constexpr std::size_t kWaste = 2;
  if (found != free_.end() && found->first <= kWaste * elements) {
    arena = std::move(found->second);
    free_.erase(found);
  } else {
    arena = std::make_unique<tensor::Arena>(transport_, type_, elements);
  }
  tensor::Arena* const lent = arena.release();
  return Lent(lent, [this](tensor::Arena* back) {
    free_.emplace(back->size(), std::unique_ptr<tensor::Arena>(back));
  });
}

}  // namespace taxon::train
