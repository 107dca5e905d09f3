#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace taxon::data {

/// Which samples a rank trains on, as a pure function of the seed and the position: each sample of an epoch
/// is used exactly once, whatever the world size, and a run can resume, with another world size too, from
/// nothing but {seed, samples consumed}. An epoch's order is a Fisher-Yates permutation drawn from Rng(seed,
/// "epoch order", epoch). A global batch is `global_batch` consecutive entries (fewer at the end of the
/// epoch); rank r of n takes part(batch, n, r) of it.
class Sampler {
 public:
  Sampler(std::uint64_t seed, std::int64_t dataset_size, std::int64_t global_batch);

  /// Where the batch that starts after `consumed` samples lies. Needs no permutation.
  struct Position {
    std::int64_t epoch = 0;
    std::int64_t first = 0;  // position in the epoch
    std::int64_t size = 0;   // of the global batch
  };
  Position position_of(std::int64_t consumed) const;

  /// The whole job's batch that starts when `consumed` samples have been used since the beginning of
  /// training.
  struct Batch {
    std::int64_t epoch = 0;
    std::int64_t size = 0;              // of the global batch; may be short at the end of an epoch
    std::vector<std::int64_t> indices;  // this rank's share; may be empty
  };
  /// Any order of calls; consecutive positions of one epoch are cheap.
  Batch at(std::int64_t consumed, int world_size, int rank);
  std::int64_t steps_per_epoch() const;

 private:
  const std::vector<std::int64_t>& order(std::int64_t epoch);
  std::uint64_t seed_;
  std::int64_t size_, global_batch_;
  /// Two neighbouring epochs, since batches of both are prepared at once where one ends.
  struct Order {
    std::int64_t epoch = -1;
    std::vector<std::int64_t> indices;
  };
  std::array<Order, 2> cached_;
};

}  // namespace taxon::data
