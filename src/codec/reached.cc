#include "codec/reached.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "codec/collect.h"
#include "codec/scan.h"
#include "codec/select.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

constexpr std::uint32_t kNoEntry = 0xffffffffU;

/// Room to find out that more reach the threshold than there is room for.
std::size_t keys_of(std::size_t room) { return room + 2 * kCollectSlack; }

}  // namespace

std::size_t reached_scratch_bytes(std::size_t count, std::size_t room) {
  return round_to_line(room * sizeof(std::uint32_t)) +
         std::max(select_scratch_bytes(count, room), keys_of(room) * sizeof(std::uint64_t));
}

Reached reach(std::span<const float> values, float threshold, std::size_t room, View scratch, Isa isa) {
  const std::size_t bytes = round_to_line(room * sizeof(std::uint32_t));
  auto places = as_span<std::uint32_t>(scratch.slice(0, room * sizeof(std::uint32_t)));
  const View rest = scratch.slice(bytes, scratch.size() - bytes);
  auto keys = as_span<std::uint64_t>(rest.slice(0, keys_of(room) * sizeof(std::uint64_t)));
  const std::size_t found = collect_at_least(values, std::bit_cast<std::uint32_t>(threshold), keys, isa);
  if (found > room) {
    if (!select_largest(values, places, rest, isa)) return {{}, false};
    return {places, true};
  }
  bool finite = true;
  for (std::size_t i = 0; i < found; ++i) {
    places[i] = place_of(keys[i]);
    finite &= magnitude_of(keys[i]) < kInfinity;
  }
  return {places.first(finite ? found : 0), finite};
}

void write_words(std::span<const std::uint32_t> places, float threshold, std::span<float> values,
                 Residual residual, std::span<std::uint32_t> words) {
  std::size_t next = 0;
  for (std::uint32_t place : places) {
    const bool negative = std::signbit(values[place]);
    words[next++] = place << 1 | (negative ? 1U : 0U);
    if (residual == Residual::Keep) values[place] -= negative ? -threshold : threshold;
  }
  std::fill(words.begin() + static_cast<std::ptrdiff_t>(next), words.end(), kNoEntry);
}

std::span<const std::uint32_t> read_words(std::span<const std::uint32_t> words, std::size_t count) {
  std::size_t used = 0;
  bool right = true;
  for (; used < words.size() && words[used] != kNoEntry; ++used)
    right &= words[used] >> 1 < count && (used == 0 || words[used - 1] >> 1 < words[used] >> 1);
  if (!right)
    throw Error(ErrorKind::Transport, "a compressed gradient names places that are not there, or one twice");
  return words.first(used);
}

void expand_words(std::span<const std::uint32_t> words, float threshold, std::span<float> values, Into into) {
  if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
  for (std::uint32_t word : words) values[word >> 1] += word & 1 ? -threshold : threshold;
}

void clear_words(std::span<const std::uint32_t> words, std::span<float> values) {
  for (std::uint32_t word : words) values[word >> 1] = 0;
}

}  // namespace taxon::codec
