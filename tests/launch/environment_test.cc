#include "launch/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "launch/identity.h"

namespace taxon::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Environment seen_with(const std::string& address, const Environment& environment = {}) {
  plan::Plan plan;
  plan.control.address = address;
  return with_address(plan, environment);
}

TEST(AddressOfThePlan, IsAHostWithOrWithoutAPort) {
  EXPECT_THAT(seen_with(""), ElementsAre());
  EXPECT_THAT(seen_with("head"), ElementsAre(Pair("MASTER_ADDR", "head")));
  EXPECT_THAT(seen_with("head:29400"),
              ElementsAre(Pair("MASTER_ADDR", "head"), Pair("MASTER_PORT", "29400")));
  EXPECT_THAT(seen_with("::1"), ElementsAre(Pair("MASTER_ADDR", "::1")));
  EXPECT_THAT(seen_with("[fe80::1]"), ElementsAre(Pair("MASTER_ADDR", "fe80::1")));
  EXPECT_THAT(seen_with("[fe80::1]:29400"),
              ElementsAre(Pair("MASTER_ADDR", "fe80::1"), Pair("MASTER_PORT", "29400")));
}

TEST(AddressOfThePlan, GivesWayToTheEnvironment) {
  const Environment given{{"MASTER_ADDR", "other"}};
  EXPECT_EQ(seen_with("head:29400", given), given);
  EXPECT_THAT(seen_with("head:29400", {{"MASTER_PORT", "1"}}),
              ElementsAre(Pair("MASTER_ADDR", "head"), Pair("MASTER_PORT", "1")));
}

TEST(AddressOfThePlan, TakesThePlaceOfAnEmptyOne) {
  EXPECT_THAT(seen_with("head:29400", {{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}}),
              ElementsAre(Pair("MASTER_ADDR", "head"), Pair("MASTER_PORT", "29400")));
}

TEST(SecretOfTheEnvironment, EmptyTextHidesNoFileAndAnEmptyFileIsNone) {
  const std::string path = testing::TempDir() + "/secret." + std::to_string(getpid());
  std::ofstream(path) << "some words\n";
  EXPECT_FALSE(find_secret({}, {{"TAXON_SECRET", ""}, {"TAXON_SECRET_FILE", path}}).empty());
  EXPECT_TRUE(find_secret({}, {{"TAXON_SECRET", ""}, {"TAXON_SECRET_FILE", ""}}).empty());
  std::ofstream(path) << " \n";
  EXPECT_THROW(find_secret({}, {{"TAXON_SECRET_FILE", path}}), Error);
  std::remove(path.c_str());
}

TEST(AddressOfThePlan, IsWhereRankZeroIsLookedFor) {
  const Environment ranks{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  EXPECT_THAT(identify(ranks).problems, ElementsAre(HasSubstr("MASTER_ADDR is not set")));
  const Identification found = identify(seen_with("head:29400", ranks));
  EXPECT_THAT(found.problems, ElementsAre());
  EXPECT_EQ(found.identity.master_addr, "head");
  EXPECT_EQ(found.identity.master_port, 29400);
  EXPECT_THAT(identify(seen_with("head:port", ranks)).problems, ElementsAre(HasSubstr("MASTER_PORT")));
  EXPECT_THAT(identify(seen_with("head")).problems, ElementsAre());  // one process, started by hand
}

}  // namespace
}  // namespace taxon::launch
