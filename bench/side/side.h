#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "side/channel.h"

namespace taxon::bench {

/// One request of the harness: `run OPERATION BYTES BLOCKS ITERATIONS [VARIANT]`.
struct Request {
  std::string operation;
  std::size_t bytes = 0;  // of each rank's buffer
  int blocks = 1;         // timed blocks, each after a barrier
  int iterations = 1;     // operations in a block, back to back
  std::string variant;    // one of the side's own; may be empty
};

/// What one rank saw of a request: per block, the seconds of one iteration.
struct Outcome {
  std::vector<double> seconds;
  bool verified = false;
  std::string detail;        // what the side wants to say about how it did it
  std::vector<double> sums;  // figures of the side's own, to be added up over the ranks
};

/// Collective: answers requests until `quit` or the end of the input. Rank 0 prints one line of JSON for
/// each:
/// {"seconds": [...], "verified": true, "detail": "ring", "sums": [...]}, or {"error": "..."}; a block's time
/// is that of its slowest rank.
void serve(CommandChannel& channel, const std::function<Outcome(const Request&)>& handle);

/// An all-reduce of float32 sums as one side does it.
class AllReduce {
 public:
  struct Buffers {
    float* input = nullptr;
    float* output = nullptr;  // equals input when in place
  };
  virtual ~AllReduce() = default;
  /// Collective: buffers for `elements`, valid until the next call.
  virtual Buffers prepare(std::size_t elements, const std::string& variant) = 0;
  /// Collective: a barrier, then `iterations` all-reduces back to back. Seconds of one of them.
  virtual double run(int iterations) = 0;
  /// How the prepared case is done: the algorithm's name, where the side knows it.
  virtual std::string detail() const { return {}; }
};

/// Fills, runs and checks every element of every block.
///
/// In place, the buffer is multiplied by the number of ranks in each iteration after the first; that is exact
/// in float32 while sum * ranks^(iterations - 1) has 24 bits, or for any count while ranks is a power of two.
Outcome measure(AllReduce& side, const Place& place, const Request& request);

}  // namespace taxon::bench
