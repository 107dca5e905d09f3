#include "report/quantiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace taxon::report {
namespace {

TEST(Quantiles, OfNothingAreZero) {
  Quantiles none;
  EXPECT_EQ(none.at(0.5), 0);
  EXPECT_EQ(none.count(), 0);
}

TEST(Quantiles, OfOneNumberAreThatNumber) {
  Quantiles one;
  one.add(0.0123);
  for (double q : {0.0, 0.5, 0.95, 1.0}) EXPECT_EQ(one.at(q), 0.0123);
  EXPECT_EQ(one.sum(), 0.0123);
}

TEST(Quantiles, AreWithinHalfAPerCentWhateverTheScale) {
  for (double scale : {1e-6, 1e-3, 1.0, 1e5}) {
    Quantiles values;
    for (int i = 1000; i >= 1; --i) values.add(i * scale);
    for (double q : {0.01, 0.25, 0.5, 0.95, 0.99})
      EXPECT_NEAR(values.at(q), q * 1000 * scale, q * 1000 * scale * 0.005) << q;
    EXPECT_EQ(values.at(0), 1 * scale);
    EXPECT_EQ(values.at(1), 1000 * scale);
    EXPECT_EQ(values.count(), 1000);
    EXPECT_NEAR(values.sum(), 500500 * scale, 1e-6 * scale * 500500);
  }
}

TEST(Quantiles, SeeARareSlowStep) {
  Quantiles values;
  for (int i = 0; i < 94; ++i) values.add(0.010);
  for (int i = 0; i < 6; ++i) values.add(0.100);
  EXPECT_NEAR(values.at(0.5), 0.010, 0.010 * 0.005);
  EXPECT_NEAR(values.at(0.95), 0.100, 0.100 * 0.005);
}

TEST(Quantiles, SurviveWhatIsNoSensibleTime) {
  Quantiles values;
  values.add(std::nan(""));
  EXPECT_EQ(values.count(), 0);
  for (double odd : {0.0, 1e-30, 1e30, std::numeric_limits<double>::infinity()}) values.add(odd);
  EXPECT_EQ(values.count(), 4);
  EXPECT_EQ(values.at(0), 0);
}

}  // namespace
}  // namespace taxon::report
