#include "faults/shape.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "exchange/extensions.h"

namespace taxon::test {
namespace {

/// So many that a value which is one of a hundred is missed once in e^40 times.
constexpr int kSeeds = 4000;

/// Every setting that is drawn, behind a word's end.
std::string drawn() {
  std::set<std::string> settings;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    for (std::string& setting : faults::draw_shape(seed, 0).settings) settings.insert(std::move(setting));
  return fmt::format("{};", fmt::join(settings, ";"));
}

/// Names of rows that no setting names as the value of `key`.
template <class Table>
std::vector<std::string> missing(const std::string& settings, std::string_view key, const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) {
    bool found = false;
    for (const char end : {',', '}', ';'})
      found = found || settings.find(fmt::format("{}{}{}", key, row.name, end)) != std::string::npos;
    if (!found) names.emplace_back(row.name);
  }
  return names;
}

TEST(Shape, EveryRowIsDrawn) {
  const std::string settings = drawn();
  const plan::Catalogue known = exchange::catalogue();
  // The exceptions are what a level means that names none.
  EXPECT_THAT(missing(settings, "topology: ", known.topologies), testing::ElementsAre("all_reduce"));
  EXPECT_THAT(missing(settings, "consistency: ", known.consistencies), testing::ElementsAre("clocks"));
  EXPECT_THAT(missing(settings, "rule: ", known.outer_rules), testing::IsEmpty());
  EXPECT_THAT(missing(settings, "late: ", known.lates), testing::ElementsAre("as_others"));
  EXPECT_THAT(missing(settings, "graph: ", exchange::graph_table()), testing::IsEmpty());
  EXPECT_THAT(missing(settings, "name: ", known.codecs), testing::IsEmpty());
  EXPECT_THAT(missing(settings, "optimiser.rule=", known.rules), testing::IsEmpty());
  EXPECT_NE(settings.find("batch.micro_batches=2;"), std::string::npos);
}

}  // namespace
}  // namespace taxon::test
