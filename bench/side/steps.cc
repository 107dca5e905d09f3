#include "side/steps.h"

#include <stdexcept>
#include <thread>

namespace taxon::bench {
namespace {

[[gnu::always_inline]] inline void add_plain(float* sum, const float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
}
[[gnu::target("avx2")]] void add_avx2(float* sum, const float* values, std::size_t count) {
  add_plain(sum, values, count);
}

struct StepVariant {
  std::string way, model;
  std::chrono::microseconds compute{0};
};

StepVariant parse(const std::string& variant) {
  const std::size_t first = variant.find('/'), last = variant.rfind('/');
  if (first == std::string::npos || first == last) throw std::runtime_error("unknown variant " + variant);
  return {variant.substr(0, first), variant.substr(first + 1, last - first - 1),
          std::chrono::microseconds(std::stoll(variant.substr(last + 1)))};
}

}  // namespace

void add_to(float* sum, const float* values, std::size_t count) {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2)
    add_avx2(sum, values, count);
  else
    add_plain(sum, values, count);
}

void PulledCheck::begin(std::span<const std::size_t> elements) {
  elements_.assign(elements.begin(), elements.end());
  sum_ = {};
  right_ = true;
}

void PulledCheck::use(std::size_t v, const float* data) {
  if (!sum_.is(data, elements_[v])) fail();
}

std::chrono::steady_clock::time_point Replay::compute(std::chrono::microseconds compute) {
  constexpr std::chrono::microseconds kSlack(150);  // that a sleep may be longer
  const auto end = std::chrono::steady_clock::now() + compute;
  for (std::uint64_t& value : values_) value = sum_ += value;
  if (std::chrono::steady_clock::now() < end - kSlack) std::this_thread::sleep_until(end - kSlack);
  while (std::chrono::steady_clock::now() < end) {
  }
  return std::chrono::steady_clock::now() - compute;
}

namespace {

class StepRequests {
 public:
  StepRequests(StepSide& side, const Place& place) : side_(side), serves_(place.rank != 0) {}
  Outcome answer(const Request& request);

 private:
  StepSide& side_;
  bool serves_;
  std::string prepared_;
  std::uint64_t next_ = 1;
};

Outcome StepRequests::answer(const Request& request) {
  const StepVariant variant = parse(request.variant);
  const std::vector<std::size_t> variables = variables_of(variant.model);
  std::size_t bytes = 0;
  for (const std::size_t elements : variables) bytes += elements * sizeof(float);
  if (variables.empty() || bytes != request.bytes)
    throw std::runtime_error(variant.model + " has " + std::to_string(bytes) + " bytes");
  if (const std::string wanted = variant.way + "/" + variant.model; prepared_ != wanted) {
    side_.prepare(variables, variant.way);
    prepared_ = wanted;
    next_ = 1;
  }
  // Memory of every place is touched, connections are made, both sides are awake.
  side_.run({.first = next_++, .count = 1, .compute = variant.compute});
  const auto count = static_cast<std::uint64_t>(request.iterations);
  const Expenses before = Expenses::now();
  Outcome outcome;
  outcome.seconds = side_.run({.first = next_, .count = count, .compute = variant.compute});
  const Expenses spent = Expenses::now() - before;
  next_ += count;
  if (serves_) outcome.seconds.assign(count, 0.0);
  outcome.verified = serves_ || side_.right();
  outcome.sums = {spent.user_copies, spent.kernel_copies};
  outcome.detail = side_.detail();
  return outcome;
}

}  // namespace

void serve_steps(CommandChannel& channel, StepSide& side) {
  StepRequests requests(side, channel.place());
  serve(channel, [&](const Request& request) { return requests.answer(request); });
}

}  // namespace taxon::bench
