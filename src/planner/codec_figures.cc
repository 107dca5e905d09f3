#include "planner/codec_figures.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "exchange/compression/aggregation.h"
#include "exchange/compression/coded.h"
#include "exchange/compression/coder.h"

namespace taxon::planner {
namespace {

constexpr int kRepeats = 5;

template <class Body>
Measured seconds_of(Body&& body) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return measured(std::move(seconds));
}

/// One bucket, with all that its codec needs.
class Bucket {
 public:
  Bucket(const codec::Codec& codec, std::span<float> values, std::vector<codec::Piece> pieces)
      : codec_(codec),
        values_(values),
        pieces_(std::move(pieces)),
        scratch_(DType::UInt8, codec.scratch_bytes(extent())),
        lasting_(codec.lasts() ? values.size() : 0),
        decoded_(values.size()) {
    for (std::size_t r = 0; r < codec.rounds().size(); ++r)
      wires_.emplace_back(DType::UInt8, codec.wire_bytes(static_cast<int>(r), extent()));
  }
  codec::Extent extent() const { return {values_.size(), pieces_}; }
  double wire_bytes() const {
    double bytes = 0;
    for (const tensor::Arena& wire : wires_) bytes += static_cast<double>(wire.size());
    if (const codec::PartQuery* asking = codec_.part_query())
      bytes += static_cast<double>(asking->question_bytes(values_.size()));
    return bytes;
  }

  /// All rounds; the seconds of each half are added.
  void travel(Measured* encode, Measured* decode) {
    const codec::CodecContext use{scratch_.bytes(), 1, 2, best_isa(), pieces_, lasting_};
    for (std::size_t r = 0; r < wires_.size(); ++r) {
      const int round = static_cast<int>(r);
      if (r > 0)
        *decode += seconds_of([&] { codec_.absorb(round - 1, values_, wires_[r - 1].bytes(), use); });
      *encode +=
          seconds_of([&] { codec_.encode(round, values_, wires_[r].bytes(), codec::Residual::Stay, use); });
    }
    *decode += seconds_of([&] { codec_.decode(wires_.back().bytes(), decoded_, codec::Into::Assign, use); });
  }

  /// Sums of squares: of what decoding missed, and of the gradient.
  void compare(double* missed, double* norm) const {
    auto add = [&](Range range) {
      for (std::size_t i = range.begin; i < range.end(); ++i) {
        *missed += std::pow(static_cast<double>(decoded_[i]) - values_[i], 2);
        *norm += std::pow(static_cast<double>(values_[i]), 2);
      }
    };
    for (const codec::Piece& piece : pieces_) add(piece.range);
  }

 private:
  const codec::Codec& codec_;
  const std::span<float> values_;
  const std::vector<codec::Piece> pieces_;
  tensor::Arena scratch_;
  std::vector<tensor::Arena> wires_;
  std::vector<float> lasting_, decoded_;
};

}  // namespace

CodecFigures measure_codec(const codec::CodecRow& row, const plan::CodecPlan& plan,
                           const RecordedGradient& gradient, int workers) {
  plan::LevelPlan level;
  level.codec = plan;
  level.codec.name = row.name;
  level.codec.options = codec::options_for(row, plan.options);
  const auto codec = row.make(level.codec.options);
  CodecFigures figures;
  double missed = 0, norm = 0;
  for (const exchange::Bucket& planned : gradient.layout.buckets) {
    Bucket bucket(*codec, gradient.values.values<float>(planned.range),
                  exchange::pieces_of(gradient.layout.arena.slots(), planned.range));
    bucket.travel(&figures.encode, &figures.decode);
    bucket.compare(&missed, &norm);
    figures.values_bytes += static_cast<double>(planned.range.size) * sizeof(float);
    figures.wire_bytes += bucket.wire_bytes();
    figures.sent += exchange::coded_bytes_sent(level, bucket.extent(), workers);
  }
  figures.error = norm > 0 ? std::sqrt(missed / norm) : 0;
  const exchange::CodecShare work = exchange::aggregation_of(*codec).share(workers);
  figures.step_codec_seconds = work.encodes * figures.encode.median + work.decodes * figures.decode.median;
  return figures;
}

double dense_bytes(const RecordedGradient& gradient, int workers) {
  plan::LevelPlan dense;
  dense.codec.dense_below = std::numeric_limits<std::int64_t>::max();
  double bytes = 0;
  for (const exchange::Bucket& bucket : gradient.layout.buckets)
    bytes += exchange::coded_bytes_sent(dense, bucket.range.size, workers);
  return bytes;
}

double copy_bandwidth(std::size_t bytes) {
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  const double seconds = seconds_of([&] { std::memcpy(to.data(), from.data(), bytes); }).median;
  return to.back() == std::byte{1} ? 2 * static_cast<double>(bytes) / seconds : 0;
}

}  // namespace taxon::planner
