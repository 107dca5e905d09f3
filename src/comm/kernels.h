#pragma once

#include <initializer_list>
#include <vector>

#include "comm/communicator.h"

namespace taxon::comm {

// The arithmetic of collectives, for the device's exchange stream: bodies alone touch payloads.

/// target := target + the others, in order. At most three others.
tensor::Kernel sum_kernel(DType type, View target, std::initializer_list<ConstView> others);
/// target := the sum of `sources`, or with `Write::All` every source := the sum, for bytes
/// [begin, begin + size) of each. `sources` outlives the kernel.
enum class Write { Target, All };
tensor::Kernel sum_members_kernel(DType type, View target, const std::vector<View>* sources, Range bytes,
                                  Write write);
/// target := source.
tensor::Kernel copy_kernel(View target, ConstView source);

/// A kernel of the exchange stream, started at once. A device that runs it on the spot costs its user no
/// suspension: `Work work(group, kernel); if (!work.done()) co_await work.finished();`. The bodies above do
/// not fail.
class ExchangeKernel {
 public:
  ExchangeKernel(Communicator& group, tensor::Kernel kernel)
      : job_(group.runtime().device, group.runtime().pending(), tensor::Stream::Exchange, std::move(kernel)) {
  }
  bool done() const { return job_.done(); }
  task::Task<void> finished() { return job_.finished(); }
  Instant since() const { return job_.since(); }

 private:
  tensor::KernelHandle job_;
};

}  // namespace taxon::comm
