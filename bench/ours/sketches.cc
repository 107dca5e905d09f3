// Exchanges of one bucket of gradients through a codec, between ranks with the real doors.
//   run real|solo|replayed BYTES BLOCKS ITERATIONS VARIANT
// VARIANT: options of the level, comma-separated: name=count_sketch,columns=0.02,... collective=ring. `solo`
// (one rank, nothing else at work) answers in `detail` with the milliseconds of each of the codec's kernels,
// in their order. With these as `replay=1.5;0.7;...` in VARIANT `replayed` sleeps as long in their place, so
// that ranks that share cores don't slow each other's codecs down: messages are as ever, and what is in them
// says nothing. sums: bytes sent in an iteration, and a hash of what came out and its square, which tell
// whether all have the same. --rank --ranks --host --port as every side; --job-port: for the control network.
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include "base/rng.h"
#include "exchange/levels/algorithm_selection.h"
#include "exchange/levels/levels.h"
#include "ours/rank.h"
#include "side/side.h"

namespace taxon::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, at);) words.push_back(word);
  return words;
}

/// Runs kernels as CpuDevice does, but for those of codecs, which it takes the time of, or sleeps for.
class CodecClock final : public tensor::Device {
 public:
  enum class Mode { Real, Record, Replay };
  explicit CodecClock(task::Executor& executor) : executor_(executor), device_(executor) {}

  void begin(Mode mode, std::vector<Seconds> times) { mode_ = mode, times_ = std::move(times), next_ = 0; }
  const std::vector<Seconds>& recorded() const { return times_; }

  void start(tensor::Stream lane, tensor::KernelHandle& job) override {
    if (lane != tensor::Stream::Exchange || mode_ == Mode::Real || !is_of_codec(job.kernel().name))
      return device_.start(lane, job);
    if (mode_ == Mode::Replay) {
      TAXON_CHECK(!times_.empty(), "nothing was recorded");
      std::this_thread::sleep_for(times_[next_++ % times_.size()]);
      return job.ended(nullptr);
    }
    const auto since = Clock::now();
    const std::exception_ptr error = job.run_body();
    times_.emplace_back(Clock::now() - since);
    job.ended(error);
  }
  void mark(tensor::KernelHandle& job, int index) override { device_.mark(job, index); }
  task::Executor& executor() override { return executor_; }

 private:
  static bool is_of_codec(const std::string& name) {
    return name == "encode" || name == "decode" || name == "settle" || name == "merge" || name == "ask" ||
           name == "answer";
  }
  task::Executor& executor_;
  tensor::CpuDevice device_;
  Mode mode_ = Mode::Real;
  std::vector<Seconds> times_;
  std::size_t next_ = 0;
};

struct Variant {
  plan::LevelPlan level;
  std::vector<Seconds> replay;
};

Variant parse(const std::string& text) {
  Variant variant;
  plan::CodecPlan& codec = variant.level.codec;
  const std::map<std::string, std::function<void(const std::string&)>> keys = {
      {"name", [&](const std::string& value) { codec.name = value; }},
      {"collective", [&](const std::string& value) { variant.level.collective = value; }},
      {"replay", [&](const std::string& value) {
         for (const std::string& ms : split(value, ';')) variant.replay.emplace_back(std::stod(ms) / 1e3);
       }}};
  for (const std::string& word : split(text, ',')) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (const auto found = keys.find(key); found != keys.end())
      found->second(value);
    else
      codec.options.set(key, value);
  }
  const plan::Options known = codec::options_for(codec::find_codec(codec.name), codec.options);
  if (known.given().size() != codec.options.given().size())
    throw Error(ErrorKind::Usage, "a key of the variant, or its value, is none of the codec's: " + text);
  return variant;
}

class Exchanges {
 public:
  explicit Exchanges(OwnRank& rank)
      : rank_(rank),
        device_(rank.transport().executor()),
        runtime_{rank.transport(), device_, recorder_},
        group_(runtime_, "codecs", members(rank.group().size())) {}

  Outcome run(const Request& request) {
    request_ = &request;
    variant_ = parse(request.variant);
    const std::function<task::Task<void>()> body = [this] { return run_blocks(); };
    rank_.perform(body);
    return std::move(outcome_);
  }

 private:
  static std::vector<Rank> members(int size) {
    std::vector<Rank> members;
    for (int rank = 0; rank < size; ++rank) members.push_back(Rank(rank));
    return members;
  }

  /// As gradients are: many small, few large.
  static std::vector<float> gradient(std::size_t count, int rank) {
    std::vector<float> values(count);
    Rng rng(1, "bench gradient", static_cast<std::uint64_t>(rank));
    for (float& value : values) {
      const double u = 2 * rng.uniform() - 1;
      value = static_cast<float>(u * u * u / (1.0001 - std::abs(u)));
    }
    return values;
  }

  CodecClock::Mode mode() const {
    if (request_->operation == "solo") return CodecClock::Mode::Record;
    return request_->operation == "replayed" ? CodecClock::Mode::Replay : CodecClock::Mode::Real;
  }

  task::Task<void> run_blocks() {
    outcome_ = {};
    if (!established_) {
      co_await group_.establish();
      established_ = true;
    }
    const std::size_t count = request_->bytes / sizeof(float);
    const std::vector<float> mine = gradient(count, group_.rank());
    exchange::Levels levels(group_, {variant_.level}, {.seed = 1});
    tensor::Arena values(rank_.transport(), DType::Float32, count);
    levels.prepare(values, {});
    const comm::CollectiveRow& barrier =
        exchange::choose(net::Operation::Barrier, "auto", {.size = group_.size(), .bytes = 0});
    std::vector<std::vector<Seconds>> kernels;
    std::int64_t step = 0;
    for (int block = -1; block < request_->blocks; ++block) {  // the first touches memory
      device_.begin(mode(), variant_.replay);
      auto entered = barrier.run(group_, comm::Call{});
      co_await entered;
      const std::uint64_t before = rank_.transport().traffic().bytes_sent;
      Seconds took{0};
      for (int i = 0; i < request_->iterations; ++i, ++step) {
        std::copy(mine.begin(), mine.end(), values.values<float>({0, count}).begin());
        const std::vector<exchange::LevelAlgorithms> rows(1);
        const auto begin = Clock::now();
        auto reduced = levels.reduce({0, 0, {0, count}, &rows, step}, values);
        co_await reduced;
        took += Clock::now() - begin;
      }
      if (block < 0) continue;
      outcome_.seconds.push_back(took.count() / request_->iterations);
      kernels.push_back(device_.recorded());
      conclude(values.bytes(), rank_.transport().traffic().bytes_sent - before);
    }
    outcome_.verified = true;
    if (mode() == CodecClock::Mode::Record) outcome_.detail = medians(kernels);
  }

  void conclude(ConstView values, std::uint64_t sent) {
    const bool means_something = mode() != CodecClock::Mode::Replay;
    const auto hash =
        means_something ? static_cast<double>(XXH3_64bits(values.data(), values.size()) & 0xFFFFF) : 0.0;
    outcome_.sums = {static_cast<double>(sent) / request_->iterations, hash, hash * hash};
  }

  static std::string medians(const std::vector<std::vector<Seconds>>& blocks) {
    std::ostringstream text;
    for (std::size_t kernel = 0; kernel < blocks[0].size(); ++kernel) {
      std::vector<double> times;
      for (const auto& block : blocks) times.push_back(block.at(kernel).count() * 1e3);
      std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                       times.end());
      text << (kernel > 0 ? ";" : "") << times[times.size() / 2];
    }
    return text.str();
  }

  OwnRank& rank_;
  CodecClock device_;
  comm::FlightRecorder recorder_;
  comm::Runtime runtime_;
  comm::Communicator group_;
  bool established_ = false;
  const Request* request_ = nullptr;
  Variant variant_;
  Outcome outcome_;
};

void serve_requests(CommandChannel& channel, OwnRank& rank) {
  Exchanges side(rank);
  serve(channel, [&](const Request& request) { return side.run(request); });
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  return taxon::bench::run_own_side(argc, argv, taxon::bench::serve_requests);
}
