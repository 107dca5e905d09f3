#include "codec/select.h"

#include <algorithm>
#include <numeric>

#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

std::vector<std::uint32_t> reference(const std::vector<float>& values, std::size_t chosen) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  order.resize(chosen);
  std::sort(order.begin(), order.end());
  return order;
}

void expect_exact(const std::vector<float>& values, std::size_t chosen, std::string_view what) {
  const std::vector<std::uint32_t> expected = reference(values, chosen);
  std::vector<std::uint32_t> indices(chosen);
  for (Isa path : isa_paths()) {
    SCOPED_TRACE(testing::Message() << what << ": " << chosen << " of " << values.size() << ", "
                                    << name_of(path));
    std::fill(indices.begin(), indices.end(), 0xffffffffU);
    Bytes scratch(select_scratch_bytes(values.size(), chosen), 0x55);
    ASSERT_TRUE(select_largest(values, indices, scratch.view(), path));
    ASSERT_EQ(indices, expected);
    EXPECT_EQ(scratch.behind(), 0x55);
  }
  ASSERT_TRUE(select_by_histogram(values, indices));
  ASSERT_EQ(indices, expected) << what;
}

TEST(Select, IsExact) {
  for (std::size_t count : {0UL, 1UL, 2UL, 100UL, 256UL, 1024UL, 1025UL, 8192UL, 8200UL, 30000UL, 100003UL})
    for (double share : {0.0, 0.0001, 0.001, 0.01, 0.08, 0.5, 1.0}) {
      const auto chosen = static_cast<std::size_t>(share * static_cast<double>(count));
      expect_exact(gradient(count, count), chosen, "many magnitudes");
      expect_exact(whole_numbers(count, count), chosen, "ties");
      expect_exact(std::vector<float>(count, 0.0F), chosen, "zeros");
      expect_exact(std::vector<float>(count, -2.5F), chosen, "all equal");
    }
}

/// Of a whole range: a part's may be larger, since what is chosen of it is rounded.
TEST(Select, NeedsNoMoreScratchThanThereIs) {
  const auto values = gradient(262144, 7);
  const std::size_t chosen = 262;
  EXPECT_GT(select_scratch_bytes(262144, chosen), select_scratch_bytes(1 << 20, 1049));
  std::vector<std::uint32_t> indices(chosen);
  for (Isa path : isa_paths())
    for (std::size_t bytes : {std::size_t{0}, select_scratch_bytes(1 << 20, 1049)}) {
      Bytes scratch(bytes, 0x55);
      ASSERT_TRUE(select_largest(values, indices, scratch.view(), path));
      ASSERT_EQ(indices, reference(values, chosen));
    }
}

TEST(Select, DoesNotDependOnALuckySample) {
  std::vector<float> values(200000, 1e-3F);
  std::vector<float> spike = values;
  for (std::size_t i = 0; i < 3000; ++i) spike[100000 + i] = static_cast<float>(i + 1);  // in one place only
  expect_exact(spike, 1000, "all in one place");
  expect_exact(spike, 2999, "all in one place");
  std::vector<float> sparse(200000, 0.0F);
  for (std::size_t i = 0; i < 200000; i += 997) sparse[i] = static_cast<float>(i);
  expect_exact(sparse, 1000, "fewer than wanted are not zero");
  std::vector<float> small = gradient(200000, 3);
  for (float& value : small) value *= 1e-40F;
  expect_exact(small, 500, "denormals");
}

TEST(Select, RefusesWhatIsNotFinite) {
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (std::size_t chosen : {1UL, 100UL, 9000UL})
      for (Isa path : isa_paths()) {
        std::vector<float> values = gradient(100000, 1);
        values[77777] = -bad;
        std::vector<std::uint32_t> indices(chosen);
        Bytes scratch(select_scratch_bytes(values.size(), chosen));
        EXPECT_FALSE(select_largest(values, indices, scratch.view(), path));
        EXPECT_FALSE(select_by_histogram(values, indices));
      }
}

}  // namespace
}  // namespace taxon::codec::test
