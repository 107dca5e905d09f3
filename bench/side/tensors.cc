#include "side/tensors.h"

#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace taxon::bench {
namespace {

/// Prime, so that no piece that is moved by whole pages looks right.
constexpr std::size_t kPeriod = 1009;
constexpr std::size_t kChain = 32;  // elements that are compared at a time
/// Numbers that float32 tells apart.
constexpr std::uint64_t kNumbers = std::uint64_t{1} << 22;

/// One period, and as much again as a chain may read beyond it.
const std::array<float, kPeriod + kChain>& bases() {
  static const auto all = [] {
    std::array<float, kPeriod + kChain> made{};
    for (std::size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<float>(i % kPeriod * 31 % kPeriod) / 512.0F;
    return made;
  }();
  return all;
}

std::size_t pattern_start(std::uint64_t number) { return number * 37 % kPeriod; }

struct Seen {
  float largest;
  std::size_t different;  // elements that are not the pattern's
};

/// Independent chains, so that the loop waits for memory and not for the comparisons.
[[gnu::always_inline]] inline Seen compare_in_chains(const float* data, std::size_t count,
                                                     const float* pattern, std::size_t at) {
  std::array<float, kChain> best;
  std::array<std::uint32_t, kChain> different{};
  best.fill(data[0]);
  std::size_t i = 0;
  for (; i + kChain <= count; i += kChain) {
    for (std::size_t chain = 0; chain < kChain; ++chain) {
      const float value = data[i + chain];
      best[chain] = value > best[chain] ? value : best[chain];
      different[chain] += value != pattern[at + chain] ? 1U : 0U;
    }
    at += kChain;
    at -= at >= kPeriod ? kPeriod : 0;
  }
  for (std::size_t chain = 0; i < count; ++i, ++chain) {
    best[0] = std::max(best[0], data[i]);
    different[0] += data[i] != pattern[at + chain] ? 1U : 0U;
  }
  return {*std::max_element(best.begin(), best.end()),
          std::accumulate(different.begin(), different.end(), std::size_t{0})};
}

[[gnu::target("avx2")]] Seen compare_avx2(const float* data, std::size_t count, const float* pattern,
                                          std::size_t at) {
  return compare_in_chains(data, count, pattern, at);
}
Seen compare_plain(const float* data, std::size_t count, const float* pattern, std::size_t at) {
  return compare_in_chains(data, count, pattern, at);
}

Seen compare(const float* data, std::size_t count, const float* pattern, std::size_t at) {
  static const auto best = __builtin_cpu_supports("avx2") ? compare_avx2 : compare_plain;
  return best(data, count, pattern, at);
}

double copied(const char* counter) {
  auto* const function = reinterpret_cast<std::uint64_t (*)()>(dlsym(RTLD_DEFAULT, counter));
  return function ? static_cast<double>(function()) : 0;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

void write_pattern(float* data, std::size_t count, std::uint64_t number) {
  const float* const pattern = bases().data();
  std::size_t at = pattern_start(number), i = 0;
  for (; i + kChain <= count; i += kChain) {
    std::copy_n(pattern + at, kChain, data + i);
    at += kChain;
    at -= at >= kPeriod ? kPeriod : 0;
  }
  std::copy_n(pattern + at, count - i, data + i);
}

std::size_t TensorContent::place(std::uint64_t number) const { return number * 2654435761U % elements_; }

float TensorContent::largest(std::uint64_t number) const {
  return static_cast<float>(2 + number % kNumbers);  // the others are below 2
}

void TensorContent::write(float* data, std::uint64_t number) const {
  write_pattern(data, elements_, number);
  data[place(number)] = largest(number);
}

std::optional<float> TensorContent::consume(const float* data, std::uint64_t number) const {
  const Seen seen = compare(data, elements_, bases().data(), pattern_start(number));
  const bool right =
      seen.largest == largest(number) && seen.different == 1 && data[place(number)] == seen.largest;
  return right ? std::optional(seen.largest) : std::nullopt;
}

void PatternSum::add(std::uint64_t number) {
  const std::size_t start = pattern_start(number);
  for (std::size_t i = 0; i < kPeriod; ++i) sums_[i] += bases()[(start + i) % kPeriod];
  std::copy_n(sums_.begin(), kChain, sums_.begin() + kPeriod);
}

bool PatternSum::is(const float* data, std::size_t count) const {
  return compare(data, count, sums_.data(), 0).different == 0;
}

PatternSum::PatternSum() : sums_(kPeriod + kChain) {}

float Consumer::take(const float* data, std::uint64_t number) {
  const std::optional<float> largest = content_.consume(data, number);
  right_ = right_ && largest;
  return largest.value_or(0);
}

Expenses Expenses::now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), copied("bench_copied_in_user_space"),
          copied("bench_copied_by_the_kernel")};
}

Expenses Expenses::operator-(const Expenses& before) const {
  return {cpu_seconds - before.cpu_seconds, user_copies - before.user_copies,
          kernel_copies - before.kernel_copies};
}

Outcome measure(TensorSide& side, const Request& request) {
  const TensorContent content(request.bytes / sizeof(float));
  side.prepare(content, request.variant);
  Outcome outcome{.verified = true};
  const auto count = static_cast<std::uint64_t>(request.iterations);
  std::uint64_t next = 1;
  side.run(next, kWarmUp);  // memory of every place is touched, connections are made
  outcome.verified = side.right();
  next += kWarmUp;
  const Expenses before = Expenses::now();
  for (int block = 0; block < request.blocks; ++block) {
    outcome.seconds.push_back(side.run(next, count) / request.iterations);
    outcome.verified = side.right() && outcome.verified;
    next += count;
  }
  const Expenses spent = Expenses::now() - before;
  outcome.sums = {spent.cpu_seconds, spent.user_copies, spent.kernel_copies};
  outcome.detail = side.detail();
  return outcome;
}

}  // namespace taxon::bench
