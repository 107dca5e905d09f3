#include "exchange/kernels.h"

#include <algorithm>

#include "task/team.h"

namespace taxon::exchange {
namespace {

std::vector<Range> cut(Range range, std::size_t elements) {
  std::vector<Range> pieces;
  for (std::size_t begin = range.begin; begin < range.end(); begin += elements)
    pieces.push_back({begin, std::min(elements, range.end() - begin)});
  return pieces;
}

}  // namespace

task::Task<Duration> run_kernel(comm::Runtime& runtime, const char* name, std::int64_t unit,
                                tensor::Kernel kernel, tensor::Stream stream) {
  comm::Span span{"exchange", name, unit, kernel.cost.bytes, runtime.executor().now(), {}};
  tensor::KernelHandle job(runtime.device, runtime.pending(), stream, std::move(kernel));
  co_await job.finished();
  if (stream == tensor::Stream::Compute) span.begin = job.since();  // others' kernels are counted as theirs
  span.end = runtime.executor().now();
  runtime.recorder.add(span);
  co_return span.end - span.begin;
}

std::vector<Range> kernel_pieces(Range range) { return cut(range, 256 * 1024); }
std::vector<Range> cached_pieces(Range range) { return cut(range, 16 * 1024); }

void divide_by_lines(int team, Range range, const std::function<void(Range)>& body) {
  if (team == 1) return body(range);
  const Range lines{0, (range.size + kLineElements - 1) / kLineElements};
  task::by_team(team, [&](int member) {
    const Range mine = part(lines, static_cast<std::size_t>(team), static_cast<std::size_t>(member));
    const std::size_t begin = mine.begin * kLineElements;
    const std::size_t end = std::min(range.size, mine.end() * kLineElements);
    if (begin < end) body({range.begin + begin, end - begin});
  });
}

}  // namespace taxon::exchange
