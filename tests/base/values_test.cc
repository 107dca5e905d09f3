#include <gtest/gtest.h>

#include <memory>
#include <unordered_set>

#include "base/named.h"
#include "base/time.h"
#include "base/unique_function.h"
#include "base/units.h"

namespace taxon {
namespace {

TEST(Named, ComparesAndHashesLikeItsValue) {
  EXPECT_EQ(Rank(2), Rank(2));
  EXPECT_LT(Rank(1), Rank(2));
  EXPECT_EQ(Rank().value(), 0);
  std::unordered_set<Rank> set{Rank(1), Rank(2), Rank(1)};
  EXPECT_EQ(set.size(), 2U);
  static_assert(!std::is_convertible_v<int, Rank> && !std::is_convertible_v<Rank, int>);
  static_assert(!std::is_constructible_v<Rank, BucketId>);
}

TEST(Time, PicosecondsAddUpExactly) {
  EXPECT_EQ(Duration(std::chrono::nanoseconds(1)).count(), 1000);
  EXPECT_DOUBLE_EQ(to_seconds(std::chrono::milliseconds(1500)), 1.5);
  EXPECT_EQ(from_seconds(0.25), Duration(std::chrono::milliseconds(250)));
  EXPECT_GT(Duration::max(), std::chrono::hours(24 * 100));
}

TEST(Time, OfFiguresThatAreTooLargeIsTheLongest) {
  EXPECT_EQ(from_seconds(1e30), kLongest);
  EXPECT_EQ(from_seconds(-1e30), -kLongest);
  EXPECT_EQ(from_picoseconds(1e300), kLongest);
  EXPECT_EQ(from_seconds(1e6), std::chrono::seconds(1'000'000));
  EXPECT_GT(kLongest + kLongest + kLongest + kLongest, kLongest);
}

TEST(UniqueFunction, OwnsMoveOnlyState) {
  auto value = std::make_unique<int>(41);
  UniqueFunction<int(int)> add = [value = std::move(value)](int more) { return *value + more; };
  EXPECT_TRUE(add);
  UniqueFunction<int(int)> moved = std::move(add);
  EXPECT_FALSE(add);  // NOLINT: that it is empty is the point
  EXPECT_EQ(moved(1), 42);
}

TEST(UniqueFunction, DestroysWhatItOwns) {
  auto shared = std::make_shared<int>(1);
  {
    UniqueFunction<void()> holder = [shared] {};
    EXPECT_EQ(shared.use_count(), 2);
    holder = UniqueFunction<void()>([] {});
    EXPECT_EQ(shared.use_count(), 1);
  }
}

TEST(UniqueFunction, KeepsMutableStateAndForwardsReferences) {
  UniqueFunction<int()> counter = [n = 0]() mutable { return ++n; };
  counter();
  EXPECT_EQ(counter(), 2);
  UniqueFunction<void(int&)> raise = [](int& x) { ++x; };
  int x = 1;
  raise(x);
  EXPECT_EQ(x, 2);
  UniqueFunction<std::size_t(std::unique_ptr<int>)> take = [](std::unique_ptr<int> p) { return p ? 1U : 0U; };
  EXPECT_EQ(take(std::make_unique<int>()), 1U);
}

TEST(UniqueFunctionDeathTest, AnEmptyOneIsNotCalled) {
  UniqueFunction<void()> empty;
  EXPECT_DEATH(empty(), "empty function");
}

TEST(Units, BytesForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(13002342), "12.4 MiB");
  EXPECT_EQ(format_bytes(3.0 * (1ULL << 40)), "3.0 TiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB") << "1024.0 KiB is no way to say it";
  EXPECT_EQ(4_KiB, 4096U);
  EXPECT_EQ(2_MiB, 2097152U);
  EXPECT_EQ(1_GiB, 1073741824U);
}

TEST(Units, SecondsForPeople) {
  EXPECT_EQ(format_seconds(0), "0.0 us");
  EXPECT_EQ(format_seconds(12.34e-6), "12.3 us");
  EXPECT_EQ(format_seconds(3.214e-3), "3.21 ms");
  EXPECT_EQ(format_seconds(2.5), "2.5 s");
  EXPECT_EQ(format_seconds(72), "1 min 12 s");
  EXPECT_EQ(format_seconds(3600 + 5 * 60 + 59), "1 h 05 min");
  EXPECT_EQ(format_seconds(0.9999999), "1.0 s");
  EXPECT_EQ(format_seconds(59.99), "1 min 00 s");
  EXPECT_EQ(format_milliseconds(0.0012344), "1.234");
}

}  // namespace
}  // namespace taxon
