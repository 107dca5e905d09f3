// How fast codecs are on one core: bench_codecs answers requests on its standard input with lines of JSON.
//   CODEC encode|decode COUNT DENSITY REPEATS   seconds of each, bytes that must be streamed, and whether the
//                                               result was right
//   memory read|copy COUNT 1 REPEATS            the bounds: reading, or copying, so many float32
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string_view>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/scan.h"

namespace taxon::bench {
namespace {

struct Request {
  std::string codec, operation;
  std::size_t count = 0;
  double density = 0;
  int repeats = 1;
};

struct Line {
  alignas(64) std::byte bytes[64];
};
class Memory {
 public:
  explicit Memory(std::size_t size) : size_(size), lines_(size / 64 + 1) {}
  View view() { return {lines_[0].bytes, size_}; }
  void wipe() { std::fill(lines_.begin(), lines_.end(), Line{}); }

 private:
  std::size_t size_;
  std::vector<Line> lines_;
};

/// As gradients are: many small, few large. Kept until another size is asked for, since drawing one takes
/// longer than what is measured.
class Gradient {
 public:
  const std::vector<float>& of(std::size_t count) {
    if (values_.size() == count) return values_;
    values_.resize(count);
    Rng rng(1, "bench gradient");
    for (float& value : values_) {
      const double u = 2 * rng.uniform() - 1;
      value = static_cast<float>(u * u * u / (1.0001 - std::abs(u)));
    }
    return values_;
  }

 private:
  std::vector<float> values_;
};

template <class Body>
std::vector<double> time_of(int repeats, Body&& body) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return seconds;
}

nlohmann::json measure_memory(const Request& request, const std::vector<float>& from) {
  std::vector<float> to(request.count);
  std::uint32_t most = 0;
  const bool copies = request.operation == "copy";
  auto seconds = time_of(request.repeats, [&] {
    if (copies)
      std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    else
      most = std::max(most, codec::largest_magnitude(from, best_isa()));
  });
  return {
      {"seconds", seconds}, {"bytes", request.count * (copies ? 8 : 4)}, {"verified", copies || most > 0}};
}

/// All rounds of a group of one.
void encode_all(const codec::Codec& codec, std::vector<float>& values, std::vector<Memory>& wires,
                const codec::CodecContext& context) {
  for (std::size_t r = 0; r < wires.size(); ++r) {
    if (r > 0) codec.absorb(static_cast<int>(r) - 1, values, wires[r - 1].view(), context);
    codec.encode(static_cast<int>(r), values, wires[r].view(), codec::Residual::Stay, context);
  }
}

/// Whether `wanted` entries travelled, and nothing larger than one of them stayed.
bool are_largest(const std::vector<float>& input, const std::vector<float>& decoded, std::size_t wanted) {
  std::size_t sent = 0;
  float least = INFINITY;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (decoded[i] == 0) continue;
    ++sent;
    least = std::min(least, std::abs(input[i]));
  }
  for (std::size_t i = 0; i < input.size(); ++i)
    if (decoded[i] == 0 && std::abs(input[i]) > least) return false;
  return sent == wanted;
}

/// Codecs whose entries, of one member, are the largest of all values.
constexpr std::string_view kLargest[] = {"top_k",        "gtop_k",        "split_top_k",
                                         "packed_top_k", "packed_gtop_k", "packed_split_top_k"};

/// Those that find most of the largest: a sketch of nothing leads to exact values too, of any entries.
constexpr std::string_view kLarge[] = {"count_sketch", "split_sketch", "chunk_top_k"};
/// Every value's sign travels.
constexpr std::string_view kSigns[] = {"sign", "sign_vote", "one_bit"};

/// What travelled is the input, except what the codec may lose: entries are exact, and as many as asked for;
/// others nearer than nothing. Chance makes more of them, but nearly as much of the input as a whole; votes
/// have signs alone.
bool is_right(const codec::CodecRow& row, double density, const std::vector<float>& input,
              const std::vector<float>& decoded) {
  double nearer = 0, norm = 0, along = 0;  // nearer: 0 if nothing travelled, exactly
  std::size_t sent = 0;
  auto is_among = [&](std::span<const std::string_view> names) {
    return std::ranges::find(names, row.name) != names.end();
  };
  const bool exact = row.sends_entries && !row.largest_error, has_signs = is_among(kSigns);
  // Factors of a matrix, which don't stand alone, are near to it as a whole, not to each value.
  const bool bounded = row.largest_error && codec::stands_alone(row);
  constexpr std::size_t kBlock = 256;
  float scale = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (i % kBlock == 0) {
      scale = 0;
      for (std::size_t j = i; j < std::min(input.size(), i + kBlock); ++j)
        scale = std::max(scale, std::abs(input[j]));
    }
    const float error = std::abs(decoded[i] - input[i]);
    const bool travelled = decoded[i] != 0 || !row.sends_entries;
    if (has_signs && input[i] != 0 && !(decoded[i] * input[i] > 0)) return false;
    if (exact && travelled && error != 0) return false;
    if (bounded && travelled && error > row.largest_error(input[i], scale)) return false;
    if (row.step && error > 1.001F * row.step(input[i], scale) + scale * 0x1p-20F) return false;
    const double value = input[i];
    nearer += value * value - std::pow(decoded[i] - value, 2);
    norm += value * value;
    along += decoded[i] * value;
    sent += travelled ? 1 : 0;
  }
  const auto wanted =
      static_cast<std::size_t>(std::max(1LL, std::llround(density * static_cast<double>(input.size()))));
  if (exact && sent != wanted) return false;
  if (is_among(kLargest) && !are_largest(input, decoded, wanted)) return false;
  if (row.step) return along > 0.9 * norm;
  return row.votes || nearer > (is_among(kLarge) ? 0.5 * norm : 0);
}

/// Of the matrix that the values are, for codecs of matrices.
constexpr std::size_t kColumns = 1024;

nlohmann::json measure_codec(const Request& request, const std::vector<float>& gradient) {
  const codec::CodecRow& row = codec::find_codec(request.codec);
  auto codec = row.make({{"density", request.density}});
  std::vector<float> values = gradient, decoded(request.count);
  const codec::Piece matrix{{0, request.count}, kColumns};
  const codec::Extent extent{request.count, {&matrix, 1}};
  Memory scratch(codec->scratch_bytes(extent));
  std::vector<float> lasting(codec->lasts() ? request.count : 0);
  std::vector<Memory> wires;
  for (std::size_t r = 0; r < codec->rounds().size(); ++r)
    wires.emplace_back(codec->wire_bytes(static_cast<int>(r), extent));
  const codec::CodecContext context{scratch.view(), 1, 2, best_isa(), extent.pieces, lasting};
  auto encode = [&](std::size_t round) {
    codec->encode(static_cast<int>(round), values, wires[round].view(), codec::Residual::Stay, context);
  };
  encode_all(*codec, values, wires, context);
  codec->decode(wires.back().view(), decoded, codec::Into::Assign, context);
  // A sketch is decoded where its sum is absorbed; low-rank factors need all of both.
  const bool two = wires.size() > 1, encodes = request.operation == "encode";
  const bool apart = two && !codec->lasts();
  // What is verified follows from what is timed: encoders find empty wires, absorb() no choice of entries.
  scratch.wipe();
  for (Memory& one : wires) one.wipe();
  if (!encodes && apart)
    encode(0);
  else if (!encodes)
    encode_all(*codec, values, wires, context);
  auto seconds = time_of(request.repeats, [&] {
    if (encodes && codec->lasts())
      encode_all(*codec, values, wires, context);
    else if (encodes)
      encode(0);
    else if (apart)
      codec->absorb(0, values, wires[0].view(), context);
    else
      codec->decode(wires.back().view(), decoded, codec::Into::Add, context);
  });
  if (apart && encodes) codec->absorb(0, values, wires[0].view(), context);
  if (apart) encode(1);
  codec->decode(wires.back().view(), decoded, codec::Into::Assign, context);
  // Decoders that are timed add: the same values, to whatever is there.
  std::vector<float> twice = decoded;
  codec->decode(wires.back().view(), twice, codec::Into::Add, context);
  const bool adds = std::ranges::equal(twice, decoded, {}, {}, [](float value) { return value + value; });
  double wire = 0;
  for (Memory& one : wires) wire += static_cast<double>(one.view().size());
  // The values once, and the wire; decoding adds to what is there, or to the lines of memory that have
  // entries.
  const double values_bytes = 4.0 * static_cast<double>(request.count);
  const double lines = 2 * 64 * request.density * static_cast<double>(request.count);
  const double decoded_bytes = row.sends_entries ? std::min(2 * values_bytes, lines) : 2 * values_bytes;
  return {{"seconds", seconds},
          {"bytes", (encodes || two ? values_bytes : decoded_bytes) + wire},
          {"wire", wire},
          {"path", name_of(context.isa)},
          {"verified", adds && is_right(row, request.density, values, decoded)}};
}

}  // namespace
}  // namespace taxon::bench

int main() {
  taxon::bench::Gradient gradient;
  std::string line;
  while (std::getline(std::cin, line)) {
    taxon::bench::Request request;
    if (line == "names") {
      nlohmann::json names;
      for (const taxon::codec::CodecRow& row : taxon::codec::codec_table()) names.push_back(row.name);
      std::cout << nlohmann::json{{"names", names}}.dump() << std::endl;
      continue;
    }
    std::istringstream words(line);
    words >> request.codec >> request.operation >> request.count >> request.density >> request.repeats;
    if (!words) return line == "quit" ? 0 : 1;
    const std::vector<float>& values = gradient.of(request.count);
    auto answer = request.codec == "memory" ? taxon::bench::measure_memory(request, values)
                                            : taxon::bench::measure_codec(request, values);
    std::cout << answer.dump() << std::endl;
  }
}
