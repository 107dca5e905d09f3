#include "codec/places.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace taxon::codec {
namespace {

using Places = std::vector<std::uint32_t>;

Places some_of(std::size_t count, std::size_t places, std::uint64_t seed) {
  Rng rng(seed, "places");
  Places chosen;
  for (std::size_t i = 0; i < count; ++i)
    if (rng.below(count - i) < places - chosen.size()) chosen.push_back(static_cast<std::uint32_t>(i));
  return chosen;
}

Places there_and_back(const Places& places, std::size_t count) {
  const PlacesShape shape{count, places.size()};
  std::vector<std::uint8_t> body(shape.bytes(), 0xAA);
  write_places(places, shape, body);
  Places read(places.size());
  read_places(body, shape, read);
  return read;
}

TEST(Places, ComeBackWhateverTheirDensity) {
  for (std::size_t count : {1UL, 2UL, 7UL, 8UL, 9UL, 255UL, 256UL, 257UL, 5000UL, 70000UL})
    for (double density : {0.0, 0.0005, 0.01, 0.1, 0.12, 0.13, 0.5, 1.0}) {
      const Places places =
          some_of(count, static_cast<std::size_t>(density * static_cast<double>(count)), count);
      EXPECT_EQ(there_and_back(places, count), places) << count << ", " << density;
    }
}

TEST(Places, HaveRoomForTheLongestGaps) {
  for (std::uint32_t gap : {254U, 255U, 256U, 509U, 510U, 511U, 765U})
    for (const Places& places : {Places{gap}, Places{0, gap + 1}, Places{gap, 2 * gap + 1, 3 * gap + 2}})
      EXPECT_EQ(there_and_back(places, places.back() + 1), places) << gap;
}

TEST(Places, TakeABitEachWhereTheyAreDense) {
  EXPECT_EQ((PlacesShape{8000, 80}).bytes(), 80u + 31);
  EXPECT_EQ((PlacesShape{8000, 2000}).bytes(), 1000u);
}

TEST(Places, ThatAreNotThereAreRefused) {
  Rng rng(3, "forgery");
  for (const PlacesShape shape : {PlacesShape{1000, 20}, PlacesShape{1001, 500}}) {
    int refused = 0;
    for (int forgery = 0; forgery < 200; ++forgery) {
      std::vector<std::uint8_t> body(shape.bytes());
      for (std::uint8_t& byte : body) byte = static_cast<std::uint8_t>(rng());
      Places read(shape.places);
      try {
        read_places(body, shape, read);
      } catch (const Error&) {
        ++refused;
        continue;
      }
      for (std::size_t i = 0; i < read.size(); ++i) {
        ASSERT_LT(read[i], shape.count);
        ASSERT_TRUE(i == 0 || read[i - 1] < read[i]);
      }
    }
    EXPECT_GT(refused, 100);
  }
}

}  // namespace
}  // namespace taxon::codec
