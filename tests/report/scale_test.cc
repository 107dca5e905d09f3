#include "report/scale.h"

#include <gtest/gtest.h>

#include <cmath>

namespace taxon::report {
namespace {

std::vector<std::string> labels(const Scale& scale, int count = 5) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks_of(scale, count)) labels.push_back(tick.label);
  return labels;
}

using Labels = std::vector<std::string>;

TEST(Scale, TicksAreRoundAndCoverTheValues) {
  EXPECT_EQ(labels(linear_scale(0, 9.3)), (Labels{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(linear_scale(0.61, 0.88)), (Labels{"0.6", "0.7", "0.8", "0.9"}));
  EXPECT_EQ(labels(linear_scale(-0.012, 0.03)), (Labels{"-0.02", "-0.01", "0.00", "0.01", "0.02", "0.03"}));
  EXPECT_EQ(labels(linear_scale(0, 60000)), (Labels{"0", "20000", "40000", "60000"}));
}

TEST(Scale, AlwaysHasRoomAndAFewTicks) {
  for (double least : {-3.0, 0.0, 1e-9, 0.5, 12345.0})
    for (double span : {0.0, 1e-7, 0.3, 1.0, 7.0, 1e6}) {
      const Scale scale = linear_scale(least, least + span);
      EXPECT_LT(scale.least, scale.most);
      EXPECT_LE(scale.least, least + 1e-12);
      EXPECT_GE(scale.most, least + span * (1 - 1e-5) - 1e-12);
      EXPECT_GE(ticks_of(scale).size(), 2u) << least << " " << span;
      EXPECT_LE(ticks_of(scale).size(), 12u) << least << " " << span;
    }
  // A mean of tenths, give or take an error of rounding.
  const Scale rounded = linear_scale(9.999999999999998, 10.000000000000002);
  EXPECT_LE(ticks_of(rounded).size(), 12u);
  const Scale none = linear_scale(INFINITY, -INFINITY);
  EXPECT_LT(none.least, none.most);
}

TEST(Scale, DecadesWhereTheAxisIsLogarithmic) {
  EXPECT_EQ(labels(logarithmic_scale(1, 1000)), (Labels{"1", "10", "100", "1000"}));
  EXPECT_EQ(labels(logarithmic_scale(2, 40)), (Labels{"3", "10", "30"}));
  EXPECT_GE(labels(logarithmic_scale(3, 5)).size(), 3u);
  Scale scale = logarithmic_scale(1, 100);
  scale.from = 0;
  scale.to = 100;
  EXPECT_NEAR(scale.at(10), 50, 1e-9);
  EXPECT_EQ(scale.at(0), 0);  // below the axis: at its end
}

TEST(Scale, TicksOfBytesOverManyPowersHaveUnitsOfTheirOwn) {
  EXPECT_EQ(labels(logarithmic_scale(900, 3e9, Quantity::Bytes)), (Labels{"1 KiB", "1 MiB", "1 GiB"}));
  EXPECT_EQ(labels(logarithmic_scale(3e4, 4e6, Quantity::Bytes)), (Labels{"32 KiB", "256 KiB", "2 MiB"}));
  for (double least : {1.0, 700.0, 5e4, 3e8})
    for (double times : {13.0, 100.0, 1e4, 1e7}) {
      const auto ticks = ticks_of(logarithmic_scale(least, least * times, Quantity::Bytes));
      EXPECT_GE(ticks.size(), 3u) << least << " " << times;
      EXPECT_LE(ticks.size(), 9u) << least << " " << times;
      for (const Tick& tick : ticks) EXPECT_LE(tick.label.size(), 8u) << tick.label;
    }
}

TEST(Scale, ValuesLieBetweenTheEnds) {
  Scale scale = linear_scale(0, 10);
  scale.from = 100;
  scale.to = 0;  // upward
  EXPECT_EQ(scale.at(0), 100);
  EXPECT_EQ(scale.at(2.5), 75);
  EXPECT_EQ(scale.at(10), 0);
}

TEST(DisplayUnit, SuitsTheLargestValue) {
  EXPECT_EQ(unit_for(Quantity::Seconds, 0.02).name, "ms");
  EXPECT_EQ(unit_for(Quantity::Seconds, 42).name, "s");
  EXPECT_EQ(unit_for(Quantity::Seconds, 1200).name, "min");
  EXPECT_EQ(unit_for(Quantity::Seconds, 20000).factor, 3600);
  EXPECT_EQ(unit_for(Quantity::Bytes, 3 << 20).name, "MiB");
  EXPECT_EQ(unit_for(Quantity::Share, 0.9).name, "%");
  EXPECT_EQ(with_unit("time", unit_for(Quantity::Seconds, 42)), "time, s");
  EXPECT_EQ(with_unit("loss", unit_for(Quantity::Number, 42)), "loss");
}

}  // namespace
}  // namespace taxon::report
