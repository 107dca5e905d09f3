#include "side/tensors.h"

#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

namespace taxon::bench {
namespace {

constexpr std::size_t kPeriod = 251;
/// Numbers that float32 tells apart.
constexpr std::uint64_t kNumbers = std::uint64_t{1} << 23;

float base(std::size_t index) { return static_cast<float>(index * 31 % kPeriod) / 512.0F; }

/// Independent chains, so that the loop waits for memory and not for the comparisons.
[[gnu::always_inline]] inline float max_in_chains(const float* data, std::size_t count) {
  constexpr std::size_t kChains = 64;
  if (count < kChains) return *std::max_element(data, data + count);
  std::array<float, kChains> best;
  best.fill(data[0]);
  std::size_t i = 0;
  for (; i + kChains <= count; i += kChains)
    for (std::size_t chain = 0; chain < kChains; ++chain)
      best[chain] = data[i + chain] > best[chain] ? data[i + chain] : best[chain];
  for (; i < count; ++i) best[0] = std::max(best[0], data[i]);
  return *std::max_element(best.begin(), best.end());
}

[[gnu::target("avx2"), gnu::optimize("O3")]] float max_avx2(const float* data, std::size_t count) {
  return max_in_chains(data, count);
}
float max_plain(const float* data, std::size_t count) { return max_in_chains(data, count); }

double copied(const char* counter) {
  auto* const function = reinterpret_cast<std::uint64_t (*)()>(dlsym(RTLD_DEFAULT, counter));
  return function ? static_cast<double>(function()) : 0;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

void TensorContent::fill(float* data) const {
  for (std::size_t i = 0; i < std::min(elements_, kPeriod); ++i) data[i] = base(i);
  for (std::size_t i = kPeriod; i < elements_; ++i) data[i] = data[i - kPeriod];
}

std::size_t TensorContent::place(std::uint64_t number) const { return number * 2654435761U % elements_; }

float TensorContent::largest(std::uint64_t number) const {
  if (number == 0) return base(std::min(elements_, kPeriod) - 1);
  return static_cast<float>(1 + number % kNumbers);
}

void TensorContent::stamp(float* data, std::uint64_t before, std::uint64_t number) const {
  if (before != 0) data[place(before)] = base(place(before));
  data[place(number)] = largest(number);
}

bool TensorContent::check_all(const float* data, std::uint64_t number) const {
  bool right = true;
  for (std::size_t i = 0; i < elements_; ++i) right &= data[i] == base(i) || i == place(number);
  return right && data[place(number)] == largest(number);
}

float max_of(const float* data, std::size_t count) {
  static const auto best = __builtin_cpu_supports("avx2") ? max_avx2 : max_plain;
  return best(data, count);
}

float Consumer::take(const float* data, std::uint64_t number) {
  const float largest = max_of(data, content_.elements());
  right_ =
      right_ && largest == content_.largest(number) && (number > kFull || content_.check_all(data, number));
  return largest;
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
  side.run(next, Consumer::kFull);  // memory of every place is touched, connections are made
  outcome.verified = side.right();
  next += Consumer::kFull;
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
