#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "data/number_dataset.h"
#include "support/runtimes.h"

namespace taxon::data {
namespace {

/// Sample i is the number i in two elements, with label i % 10.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const SampleShape& shape() const override { return shape_; }
  void read(std::span<const std::int64_t> indices, std::span<float> inputs,
            std::span<std::int64_t> labels) const override {
    if (reads_++ == fail_at_) throw Error(ErrorKind::Data, "the disk is gone");
    for (std::size_t i = 0; i < indices.size(); ++i) {
      inputs[2 * i] = inputs[2 * i + 1] = static_cast<float>(indices[i]);
      labels[i] = indices[i] % 10;
    }
  }
  int reads() const { return reads_; }
  void fail_at(int read) { fail_at_ = read; }
  bool is_slow() const override { return is_slow_; }
  /// The epoch shows in the inputs, and a read takes a while.
  void slow_down() { is_slow_ = true; }
  void read_parts(std::optional<std::int64_t> epoch, std::span<const std::int64_t> indices,
                  const Rooms& rooms) const override {
    Dataset::read_parts(epoch, indices, rooms);
    if (!is_slow_) return;
    for (float& value : numbers(rooms.inputs[0])) value += 1000 * static_cast<float>(epoch.value_or(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  SampleShape shape_{{2}, 10};
  std::int64_t size_;
  mutable std::atomic<int> reads_{0};
  int fail_at_ = -1;
  bool is_slow_ = false;
};

std::vector<float> inputs_of(const Batch& batch) {
  const std::span<const float> inputs = numbers(batch.samples.parts[0].values());
  return {inputs.begin(), inputs.end()};
}
std::vector<std::int64_t> labels_of(const Batch& batch) {
  const std::span<const std::int64_t> labels = whole(batch.samples.labels.values());
  return {labels.begin(), labels.end()};
}

task::Task<void> load_all(comm::Runtime* runtime, const Dataset* dataset, std::int64_t from, std::int64_t to,
                          std::vector<Batch>* out) {
  Loader loader(*runtime, *dataset, Sampler(7, dataset->size(), 8), 2, from, to, runtime->world_size(),
                runtime->rank().value());
  while (!loader.at_end()) {
    auto next = loader.next();
    Batch batch = co_await next;
    out->push_back(std::move(batch));
  }
  auto closed = loader.close();
  co_await closed;
}

TEST(Loader, HandsOutTheSamplersSharesInOrder) {
  for (int world : {1, 3}) {
    Numbers numbers(21);  // batches of 8, 8 and 5
    std::vector<std::vector<Batch>> batches(static_cast<std::size_t>(world));
    test::RuntimeBody body = [&](comm::Runtime& runtime) {
      return load_all(&runtime, &numbers, 0, 42, &batches[static_cast<std::size_t>(runtime.rank().value())]);
    };
    test::run_runtimes(world, body);
    Sampler sampler(7, 21, 8);
    for (int rank = 0; rank < world; ++rank) {
      const auto& mine = batches[static_cast<std::size_t>(rank)];
      ASSERT_EQ(mine.size(), 6u);
      std::int64_t consumed = 0;
      for (const Batch& batch : mine) {
        auto expected = sampler.at(consumed, world, rank);
        EXPECT_EQ(batch.first, consumed);
        EXPECT_EQ(batch.epoch, expected.epoch);
        EXPECT_EQ(batch.global_size, expected.size);
        ASSERT_EQ(batch.samples.labels.size(), expected.indices.size());
        ASSERT_EQ(inputs_of(batch).size(), 2 * expected.indices.size());
        for (std::size_t i = 0; i < expected.indices.size(); ++i) {
          EXPECT_EQ(inputs_of(batch)[2 * i + 1], static_cast<float>(expected.indices[i]));
          EXPECT_EQ(labels_of(batch)[i], expected.indices[i] % 10);
        }
        consumed += batch.global_size;
      }
      EXPECT_EQ(consumed, 42);
    }
  }
}

TEST(Loader, RanksWithoutSamplesGetEmptyShares) {
  Numbers numbers(9);  // the second batch has one sample for four ranks
  std::vector<std::vector<Batch>> batches(4);
  test::RuntimeBody body = [&](comm::Runtime& runtime) {
    return load_all(&runtime, &numbers, 0, 9, &batches[static_cast<std::size_t>(runtime.rank().value())]);
  };
  test::run_runtimes(4, body);
  EXPECT_EQ(batches[0][1].size(), 1);
  EXPECT_EQ(batches[3][1].size(), 0);
  EXPECT_EQ(batches[3][1].global_size, 1);
}

task::Task<void> load_by_threads(comm::Runtime* runtime, const Dataset* dataset, int threads,
                                 std::vector<Batch>* out, int* parts) {
  tensor::CpuDevice device(runtime->executor(), {.data_threads = threads});
  comm::Runtime wide{runtime->transport, device, runtime->recorder};
  Loader loader(wide, *dataset, Sampler(7, dataset->size(), 8), 2, 0, 4 * dataset->size(), 1, 0);
  while (!loader.at_end()) {
    auto next = loader.next();
    Batch batch = co_await next;
    out->push_back(std::move(batch));
  }
  *parts = loader.parts();
  auto closed = loader.close();
  co_await closed;
}

class SharedByThreads : public testing::TestWithParam<std::int64_t> {};
// The last batch of an epoch of 17 is one sample, which is all of a share and the part of one thread.
INSTANTIATE_TEST_SUITE_P(Sizes, SharedByThreads, testing::Values(21, 17));

TEST_P(SharedByThreads, ASlowBatchStaysTheSame) {
  Numbers slow(GetParam()), quick(GetParam());
  slow.slow_down();
  std::vector<Batch> by_one, by_three;
  int one = 0, three = 0, in_memory = 0;
  test::RuntimeBody alone = [&](comm::Runtime& r) { return load_by_threads(&r, &slow, 1, &by_one, &one); };
  test::RuntimeBody shared = [&](comm::Runtime& r) {
    return load_by_threads(&r, &slow, 3, &by_three, &three);
  };
  std::vector<Batch> ignored;
  test::RuntimeBody plain = [&](comm::Runtime& r) {
    return load_by_threads(&r, &quick, 3, &ignored, &in_memory);
  };
  for (const auto& body : {alone, shared, plain}) test::run_runtimes(1, body);
  EXPECT_EQ(one, 1);
  EXPECT_EQ(three, 3);
  EXPECT_EQ(in_memory, 1);
  ASSERT_EQ(by_one.size(), by_three.size());
  for (std::size_t i = 0; i < by_one.size(); ++i) {
    EXPECT_EQ(inputs_of(by_one[i]), inputs_of(by_three[i]));
    EXPECT_EQ(labels_of(by_one[i]), labels_of(by_three[i]));
  }
  EXPECT_GE(inputs_of(by_three.back())[0], 3000);  // of the fourth epoch
}

/// Windows of two tokens.
class Words final : public Dataset {
 public:
  std::int64_t size() const override { return 5; }
  const SampleShape& shape() const override { return shape_; }
  void read_tokens(std::span<const std::int64_t> indices, std::span<std::int64_t> inputs,
                   std::span<std::int64_t> targets) const override {
    for (std::size_t i = 0; i < indices.size(); ++i)
      for (std::size_t k = 0; k < 2; ++k) {
        inputs[2 * i + k] = indices[i];
        targets[2 * i + k] = indices[i] + 1;
      }
  }

 private:
  SampleShape shape_{.input = {2}, .classes = 6, .input_type = DType::Int64, .target = {2}};
};

TEST(Loader, TokensHaveAsManyTargets) {
  Words words;
  std::vector<Batch> batches;
  test::RuntimeBody body = [&](comm::Runtime& r) { return load_all(&r, &words, 0, 5, &batches); };
  test::run_runtimes(1, body);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].size(), 5);
  const Values& tokens = batches[0].samples.parts[0];
  ASSERT_EQ(tokens.size(), 10u);
  EXPECT_EQ(labels_of(batches[0])[9], whole(tokens)[9] + 1);
}

TEST(Loader, StartsInTheMiddle) {
  Numbers numbers(21);
  std::vector<Batch> whole, rest;
  test::RuntimeBody all = [&](comm::Runtime& r) { return load_all(&r, &numbers, 0, 42, &whole); };
  test::RuntimeBody late = [&](comm::Runtime& r) { return load_all(&r, &numbers, 16, 42, &rest); };
  test::run_runtimes(1, all);
  test::run_runtimes(1, late);
  ASSERT_EQ(rest.size(), 4u);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(inputs_of(rest[i]), inputs_of(whole[i + 2]));
    EXPECT_EQ(rest[i].first, whole[i + 2].first);
  }
}

task::Task<void> stop_early(comm::Runtime* runtime, const Dataset* dataset) {
  Loader loader(*runtime, *dataset, Sampler(7, dataset->size(), 8), 4, 0, 1000, runtime->world_size(),
                runtime->rank().value());
  {
    auto next = loader.next();
    Batch first = co_await next;
    EXPECT_EQ(first.first, 0);
  }
  {
    auto closed = loader.close();
    co_await closed;
  }
  // What was prepared in vain is prepared again.
  {
    auto next = loader.next();
    Batch second = co_await next;
    EXPECT_EQ(second.first, 8);
  }
  auto closed = loader.close();
  co_await closed;
}

TEST(Loader, PreparesAheadAndClosesEarly) {
  Numbers numbers(64);
  test::RuntimeBody body = [&](comm::Runtime& runtime) { return stop_early(&runtime, &numbers); };
  test::run_runtimes(1, body);
  EXPECT_EQ(numbers.reads(), 1 + 4 + 1 + 4);
}

task::Task<void> cancelled_midway(comm::Runtime* runtime, const Dataset* dataset, std::string* caught) {
  Loader loader(*runtime, *dataset, Sampler(7, dataset->size(), 8), 4, 0, 1000, runtime->world_size(),
                runtime->rank().value());
  try {
    auto first = loader.next();
    (void)co_await first;
    runtime->pending().cancel(std::make_exception_ptr(Error(ErrorKind::PeerLost, "rank 3 is gone")));
    auto second = loader.next();
    (void)co_await second;
  } catch (const Error& error) {
    *caught = error.what();
  }
  auto closed = loader.close();
  co_await closed;
}

TEST(Loader, ACancelledRankUnwinds) {
  Numbers numbers(64);
  std::string caught;
  test::RuntimeBody body = [&](comm::Runtime& runtime) {
    return cancelled_midway(&runtime, &numbers, &caught);
  };
  test::run_runtimes(1, body);
  EXPECT_EQ(caught, "rank 3 is gone");
}

task::Task<void> failing_read(comm::Runtime* runtime, const Dataset* dataset, std::string* caught) {
  Loader loader(*runtime, *dataset, Sampler(7, dataset->size(), 8), 2, 0, 1000, runtime->world_size(),
                runtime->rank().value());
  try {
    for (int i = 0; i < 2; ++i) {
      auto next = loader.next();
      (void)co_await next;
    }
  } catch (const Error& error) {
    *caught = error.what();
  }
  auto closed = loader.close();
  co_await closed;
}

TEST(Loader, AFailedReadReachesWhoAsksForTheBatch) {
  Numbers numbers(64);
  numbers.fail_at(1);
  std::string caught;
  test::RuntimeBody body = [&](comm::Runtime& runtime) { return failing_read(&runtime, &numbers, &caught); };
  test::run_runtimes(1, body);
  EXPECT_EQ(caught, "the disk is gone");
}

/// Sample i is the numbers [i, i + 1/2], the token 10 i and the flag i odd, with targets [-i, i / 4].
TEST(Loader, SharesOfPartsAndRealTargetsAreTheSamplersOfEachRank) {
  constexpr std::int64_t kSize = 21;
  std::vector<float> values, targets;
  std::vector<std::int64_t> tokens;
  std::vector<std::uint8_t> flags;
  for (int i = 0; i < kSize; ++i) {
    const auto number = static_cast<float>(i);
    values.insert(values.end(), {number, number + 0.5F});
    targets.insert(targets.end(), {-number, number / 4});
    tokens.push_back(10 * i);
    flags.push_back(i % 2 == 1);
  }
  const NumberDataset samples({.input = {2},
                               .classes = 2,
                               .target = {2},
                               .target_type = DType::Float32,
                               .more = {{{1}, DType::Int64}, {{1}, DType::UInt8}}},
                              {{values, tokens, flags}, targets});
  std::vector<Batch> batches[3];
  test::RuntimeBody body = [&](comm::Runtime& runtime) {
    return load_all(&runtime, &samples, 0, kSize, &batches[runtime.rank().value()]);
  };
  test::run_runtimes(3, body);
  Sampler sampler(7, kSize, 8);
  for (int rank = 0; rank < 3; ++rank) {
    std::int64_t consumed = 0;
    for (const Batch& batch : batches[rank]) {
      const auto expected = sampler.at(consumed, 3, rank).indices;
      ASSERT_EQ(batch.size(), std::ssize(expected));
      const Inputs inputs = batch.samples.inputs();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto number = static_cast<float>(expected[i]);
        EXPECT_EQ(numbers(inputs.parts[0])[2 * i + 1], number + 0.5F);
        EXPECT_EQ(whole(inputs.parts[1])[i], 10 * expected[i]);
        EXPECT_EQ(inputs.parts[2].as<std::span<const std::uint8_t>>()[i], expected[i] % 2);
        EXPECT_EQ(numbers(batch.samples.labels.values())[2 * i], -number);
        EXPECT_EQ(numbers(batch.samples.labels.values())[2 * i + 1], number / 4);
      }
      consumed += batch.global_size;
    }
    EXPECT_EQ(consumed, kSize);
  }
}

}  // namespace
}  // namespace taxon::data
