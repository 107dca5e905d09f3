#include "codec/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "codec/collect.h"
#include "codec/scan.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

/// Neighbours that a sample takes together: a line of memory costs the same as one of its values.
constexpr std::size_t kLine = 16;
/// Chosen values that the sample should meet: enough that half as many again surely are enough.
constexpr double kHits = 64, kMargin = 32;
/// With more entries than this share, or fewer values, histograms are as good.
constexpr std::size_t kShare = 12, kFewValues = 8192;
/// Of so few values sorting keys halfway is faster than filling histograms.
constexpr std::size_t kVeryFewValues = 1024;

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & kMagnitude; }

/// Room for three times the wanted number of keys.
std::size_t keys_for(std::size_t chosen) { return 3 * chosen + 1024 + kCollectSlack; }

std::size_t sample_size(std::size_t count, std::size_t chosen) {
  const double wanted = kHits * static_cast<double>(count) / static_cast<double>(chosen);
  const auto size = static_cast<std::size_t>(std::min(wanted, static_cast<double>(count / 4)));
  return std::max<std::size_t>(size / kLine, 1) * kLine;
}

bool samples(std::size_t count, std::size_t chosen) {
  return count >= kFewValues && chosen <= count / kShare;
}

/// A magnitude that is reached by about one and a half times as many values as are wanted.
std::uint32_t sampled_threshold(std::span<const float> values, std::size_t chosen,
                                std::span<std::uint32_t> sample) {
  const std::size_t lines = sample.size() / kLine, apart = values.size() / lines;
  for (std::size_t l = 0; l < lines; ++l)
    for (std::size_t i = 0; i < kLine; ++i) sample[l * kLine + i] = magnitude(values[l * apart + i]);
  const double share = static_cast<double>(chosen) / static_cast<double>(values.size());
  const double hits = share * static_cast<double>(sample.size());
  const auto rank = static_cast<std::size_t>(hits + kMargin * std::sqrt(std::max(hits, 1.0) / kHits));
  auto nth = sample.begin() + static_cast<std::ptrdiff_t>(std::min(rank, sample.size() - 1));
  std::nth_element(sample.begin(), nth, sample.end(), std::greater<>());
  return *nth;
}

/// How many values have each number in the `bits` bits of their magnitude above `shift`, among those whose
/// bits above these are `prefix`.
struct Histogram {
  static constexpr int kBits = 11;
  std::array<std::uint64_t, 1 << kBits> counts{};

  Histogram(std::span<const float> values, int shift, std::uint32_t prefix) {
    constexpr std::uint32_t kMask = (1U << kBits) - 1;
    for (float value : values) {
      const std::uint32_t bits = magnitude(value) >> shift;
      counts[bits & kMask] += (bits >> kBits) == prefix ? 1 : 0;
    }
  }
  /// The highest number such that it and all above it count at least `wanted`, which is lowered by those
  /// above it.
  std::uint32_t find(std::size_t* wanted) const {
    for (std::size_t number = counts.size(); number-- > 0;) {
      if (counts[number] >= *wanted) return static_cast<std::uint32_t>(number);
      *wanted -= counts[number];
    }
    return 0;
  }
};

bool select_one(std::span<const float> values, std::uint32_t* index, Isa path) {
  const std::uint32_t largest = largest_magnitude(values, path);
  if (largest >= kInfinity) return false;
  const auto first =
      std::find_if(values.begin(), values.end(), [&](float value) { return magnitude(value) == largest; });
  *index = static_cast<std::uint32_t>(first - values.begin());
  return true;
}

bool select_by_keys(std::span<const float> values, std::span<std::uint32_t> indices, Isa path) {
  if (!all_finite(values, path)) return false;
  std::array<std::uint64_t, kVeryFewValues> keys;
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(values.size());
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(indices.size() - 1);
  auto key = [&values](std::size_t i) { return key_of(magnitude(values[i]), static_cast<std::uint32_t>(i)); };
  for (std::size_t i = 0; i < values.size(); ++i) keys[i] = key(i);
  std::nth_element(keys.begin(), last, end, std::greater<>());
  std::size_t next = 0;
  for (std::size_t i = 0; next < indices.size(); ++i)
    if (key(i) >= *last) indices[next++] = static_cast<std::uint32_t>(i);
  return true;
}

}  // namespace

std::size_t select_scratch_bytes(std::size_t count, std::size_t chosen) {
  if (chosen == 0 || !samples(count, chosen)) return 0;
  const std::size_t sample = round_to_line(sample_size(count, chosen) * sizeof(std::uint32_t));
  return std::max(sample, 2 * round_to_line(keys_for(chosen) * sizeof(std::uint64_t)));
}

bool select_by_histogram(std::span<const float> values, std::span<std::uint32_t> indices) {
  if (indices.empty()) return all_finite(values, Isa::Portable);
  std::size_t wanted = indices.size();
  // 31 bits of magnitude: 9, 11 and 11.
  std::uint32_t prefix = 0;
  for (int shift : {22, 11, 0}) {
    Histogram histogram(values, shift, prefix);
    if (shift == 22)
      for (std::size_t number = kInfinity >> 22; number < histogram.counts.size(); ++number)
        if (histogram.counts[number] > 0 && !all_finite(values, Isa::Portable)) return false;
    prefix = prefix << Histogram::kBits | histogram.find(&wanted);
  }
  std::size_t found = 0;
  for (std::size_t i = 0; i < values.size() && found < indices.size(); ++i) {
    const std::uint32_t m = magnitude(values[i]);
    if (m < prefix || (m == prefix && wanted == 0)) continue;
    if (m == prefix) --wanted;
    indices[found++] = static_cast<std::uint32_t>(i);
  }
  TAXON_CHECK(found == indices.size(), found, " of ", indices.size());
  return true;
}

bool select_largest(std::span<const float> values, std::span<std::uint32_t> indices, View scratch, Isa path) {
  const std::size_t chosen = indices.size();
  TAXON_CHECK(chosen <= values.size() && values.size() <= std::size_t{1} << 32, chosen, " of ",
              values.size());
  if (chosen == 1) return select_one(values, indices.data(), path);
  if (chosen > 0 && values.size() <= kVeryFewValues) return select_by_keys(values, indices, path);
  // A part may want more room than the whole that the scratch was sized for: sample sizes are rounded.
  if (chosen == 0 || !samples(values.size(), chosen) ||
      scratch.size() < select_scratch_bytes(values.size(), chosen))
    return select_by_histogram(values, indices);
  auto sample =
      as_span<std::uint32_t>(scratch.slice(0, sample_size(values.size(), chosen) * sizeof(std::uint32_t)));
  const std::uint32_t threshold = sampled_threshold(values, chosen, sample);
  if (threshold >= kInfinity) return false;
  const std::size_t room = keys_for(chosen);
  auto keys = as_span<std::uint64_t>(scratch.slice(0, room * sizeof(std::uint64_t)));
  auto order = as_span<std::uint64_t>(
      scratch.slice(round_to_line(room * sizeof(std::uint64_t)), room * sizeof(std::uint64_t)));
  const std::size_t found = collect_at_least(values, threshold, keys, path);
  if (found < chosen || found > room - kCollectSlack) return select_by_histogram(values, indices);
  std::copy_n(keys.begin(), found, order.begin());
  auto last = order.begin() + static_cast<std::ptrdiff_t>(chosen - 1);
  std::nth_element(order.begin(), last, order.begin() + static_cast<std::ptrdiff_t>(found), std::greater<>());
  for (std::size_t i = 0; i < chosen; ++i)
    if (magnitude_of(order[i]) >= kInfinity) return false;
  std::size_t next = 0;
  for (std::size_t i = 0; i < found && next < chosen; ++i)
    if (keys[i] >= *last) indices[next++] = place_of(keys[i]);
  return true;
}

}  // namespace taxon::codec
