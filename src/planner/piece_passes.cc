#include "planner/piece_passes.h"

#include <algorithm>
#include <cstring>

namespace taxon::planner {
namespace {

/// Over and over, as often as it takes.
void repeat(ConstView from, View to) {
  if (from.empty()) return;
  for (std::size_t at = 0; at < to.size(); at += from.size())
    std::memcpy(to.data() + at, from.data(), std::min(from.size(), to.size() - at));
}

double size_of(const model::Segment& segment) { return std::max(segment.forward_flops, 1.0); }

}  // namespace

PiecePasses::PiecePasses(model::Model& model, std::int64_t samples, DType type)
    : staged_(*model.staged()), spec_(model.spec()) {
  for (const model::Piece& piece : staged_.pieces()) {
    const Range all{0, static_cast<std::size_t>(samples)};
    const std::size_t own = piece.own(all, spec_.members, spec_.member).size;
    const auto arena = [&](std::int64_t elements) {
      return tensor::Arena(type, own * static_cast<std::size_t>(elements));
    };
    for (std::size_t s = 0; s < piece.segments.size; ++s)
      scale_.push_back(static_cast<double>(samples) / static_cast<double>(std::max<std::size_t>(1, own)));
    buffers_.push_back(
        {arena(piece.inputs), arena(piece.outputs), arena(piece.inputs), arena(piece.outputs)});
  }
}

PiecePasses::Times PiecePasses::pass(const model::StepInput& input, const std::function<double()>& now,
                                     tensor::Milestones& marks) {
  Times times{std::vector<double>(spec_.segments.size()), std::vector<double>(spec_.segments.size())};
  const model::MicroBatch all{&input, 0, 1};
  const auto pieces = static_cast<int>(buffers_.size());
  staged_.begin_step(input);
  for (int i = 0; i < pieces; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Buffers& here = buffers_[at];
    if (i > 0) repeat(buffers_[at - 1].outputs.bytes(), here.inputs.bytes());
    const double begin = now();
    staged_.forward(i, all, here.inputs.bytes(), here.outputs.bytes());
    share(at, now() - begin, times.forward);
  }
  for (int i = pieces; i-- > 0;) {
    const auto at = static_cast<std::size_t>(i);
    const Buffers& here = buffers_[at];
    if (i + 1 < pieces) repeat(buffers_[at + 1].input_gradients.bytes(), here.output_gradients.bytes());
    const double begin = now();
    staged_.backward(i, all, model::Gradients::All, here.output_gradients.bytes(),
                     here.input_gradients.bytes(), true, marks);
    share(at, now() - begin, times.backward);
  }
  staged_.end_step();
  return times;
}

void PiecePasses::share(std::size_t piece, double seconds, std::vector<double>& segments) const {
  Range range = staged_.pieces()[piece].segments;
  if (range.size == 0) range = {range.begin > 0 ? range.begin - 1 : 0, 1};
  double all = 0;
  for (std::size_t s = range.begin; s < range.end(); ++s) all += size_of(spec_.segments[s]);
  for (std::size_t s = range.begin; s < range.end(); ++s)
    segments[s] += seconds * scale_[s] * size_of(spec_.segments[s]) / all;
}

}  // namespace taxon::planner
