#pragma once

#include <memory>
#include <vector>

#include "exchange/layout/bucket.h"
#include "exchange/levels/levels.h"
#include "task/scope.h"

namespace taxon::exchange {

/// Units of gathers: this and the bucket's number.
inline constexpr std::uint32_t kParametersUnit = 0x48000000;

/// Parameters of which each rank keeps its parts alone, gathered from their owners before passes read them,
/// segment by segment, into places that others take afterwards (ZeRO-3, see keep_parts()). Every rank of the
/// levels asks for the same in the same order. Executor's thread only.
class Gathering {
 public:
  /// Everything outlives it.
  struct Setup {
    const Layout* layout = nullptr;           // of kept parts
    const tensor::Arena* master = nullptr;    // this rank's parts
    const tensor::Arena* gathered = nullptr;  // where passes read, in their type
    Levels* levels = nullptr;
  };
  Gathering(comm::Runtime& runtime, const Setup& setup);

  /// Suspends until the parameters that the segment reads are there, and begins to gather those of `ahead`,
  /// in their order. Those of others are gone. REQUIRES: no job reads these any more, and all that were begun
  /// were waited for or are asked for again.
  task::Task<void> open(int segment, std::vector<int> ahead);
  /// The masters are about to change, or may have: nothing is there any more. Suspends until nothing is under
  /// way; throws what made a gather fail.
  task::Task<void> close();

 private:
  bool reads(const Bucket& bucket, int segment) const;
  void begin(int segment);
  task::Task<void> gather(const Bucket* bucket);

  comm::Runtime& runtime_;
  const Setup setup_;
  std::vector<std::unique_ptr<task::Event>> there_;  // by bucket; null: neither there nor under way
  task::Scope gathers_;
};

}  // namespace taxon::exchange
