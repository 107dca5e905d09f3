#include "exchange/kernels.h"

#include <algorithm>

namespace taxon::exchange {

task::Task<Duration> run_kernel(comm::Runtime& runtime, const char* name, std::int64_t unit,
                                tensor::Kernel kernel) {
  comm::Span span{"exchange", name, unit, kernel.cost.bytes, runtime.executor().now(), {}};
  co_await tensor::run(runtime.device, runtime.pending(), tensor::Stream::Exchange, std::move(kernel));
  span.end = runtime.executor().now();
  runtime.recorder.add(span);
  co_return span.end - span.begin;
}

std::vector<Range> kernel_pieces(Range range) {
  constexpr std::size_t kPieceElements = 256 * 1024;
  std::vector<Range> pieces;
  for (std::size_t begin = range.begin; begin < range.end(); begin += kPieceElements)
    pieces.push_back({begin, std::min(kPieceElements, range.end() - begin)});
  return pieces;
}

}  // namespace taxon::exchange
