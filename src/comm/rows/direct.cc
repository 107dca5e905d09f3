#include "comm/rows/direct.h"

#include <algorithm>

#include "net/describe.h"

namespace taxon::comm {
namespace {

constexpr std::size_t kLine = 64;
/// Of each member's memory. A core sums it in well under a millisecond.
constexpr std::size_t kPiece = std::size_t{512} << 10;

}  // namespace

task::Task<void> Direct::open() {
  if (!Channel::is_open(group, tag, 0)) {
    co_await Channel::open(group, tag, call, 0);
  }
  channel = group.channel(tag).get();
  if (call.data.empty()) co_return;
  peers = group.peers(call.data);
  // What the members share is what they told each other: one may have told some that it maps all, and others
  // that it does not.
  if (!peers.mapped())
    throw Error(
        ErrorKind::Mismatch,
        "Ranks disagree on which memory they share: the data of a direct collective lies in no region "
        "that all members map, as far as this rank was told. Every rank must run the same plan and the "
        "same version.",
        ErrorContext{
            {}, net::describe_operation(tag), net::describe_subject(tag, group.runtime().pending())});
}

task::Task<void> Direct::in_pieces(Range bytes, tensor::Kernel (*kernel)(const Direct&, Range bytes)) {
  Runtime& runtime = group.runtime();
  for (std::size_t at = bytes.begin; at < bytes.end(); at += kPiece) {
    if (at > bytes.begin) {
      task::Yield others(runtime.executor());
      co_await others;
      // The members' memory may be on its way out after a failure.
      if (auto why = runtime.pending().cancelled()) std::rethrow_exception(why);
    }
    ExchangeKernel work(group, kernel(*this, Range{at, std::min(kPiece, bytes.end() - at)}));
    if (!work.done()) {
      co_await work.finished();
    }
  }
}

Range lines_part(std::size_t bytes, int members, int index) {
  Range lines = part({0, (bytes + kLine - 1) / kLine}, static_cast<std::size_t>(members),
                     static_cast<std::size_t>(index));
  std::size_t begin = std::min(bytes, lines.begin * kLine);
  return {begin, std::min(bytes, lines.end() * kLine) - begin};
}

Range elements_part(const Call& call, int members, int index) {
  std::size_t element = size_of(call.type);
  Range range = part({0, call.data.size() / element}, static_cast<std::size_t>(members),
                     static_cast<std::size_t>(index));
  return {range.begin * element, range.size * element};
}

bool shares_memory(const Shape& shape) { return shape.shares_memory || shape.size == 1; }

}  // namespace taxon::comm
