#include "base/error.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace taxon {
namespace {

TEST(Error, EveryKindHasANameAndAnExitCodeOfItsOwn) {
  std::set<std::string> names;
  std::set<int> codes;
  for (ErrorKind kind : all_error_kinds()) {
    EXPECT_TRUE(names.insert(to_string(kind)).second) << to_string(kind);
    EXPECT_TRUE(codes.insert(exit_code(kind)).second) << to_string(kind);
    EXPECT_GT(exit_code(kind), 1) << "0 is success and 1 is what an unknown failure gives";
    EXPECT_LT(exit_code(kind), 256);
  }
  EXPECT_EQ(all_error_kinds().size(), static_cast<std::size_t>(ErrorKind::Internal) + 1);
}

TEST(Error, CodesThatUsersRelyOn) {
  EXPECT_EQ(exit_code(ErrorKind::Usage), 2);
  EXPECT_EQ(exit_code(ErrorKind::Interrupted), 128 + 15);
}

TEST(Error, CarriesItsContext) {
  try {
    throw Error(ErrorKind::PeerLost, "rank 3 is gone", {Rank(3), "all_reduce", "bucket 2"});
  } catch (const std::exception& caught) {
    const auto& error = dynamic_cast<const Error&>(caught);
    EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
    EXPECT_STREQ(error.what(), "rank 3 is gone");
    EXPECT_EQ(error.context().rank, Rank(3));
    EXPECT_EQ(error.context().operation, "all_reduce");
    EXPECT_EQ(error.context().tensor, "bucket 2");
  }
  EXPECT_FALSE(Error(ErrorKind::Data, "x").context().rank.has_value());
}

// docs/errors.md has one row per kind: | `name` | code | ...
TEST(Error, TheManualListsExactlyTheseKindsAndCodes) {
  std::ifstream page(TAXON_SOURCE_DIR "/docs/errors.md");
  ASSERT_TRUE(page) << "docs/errors.md is missing";
  std::vector<std::pair<std::string, int>> documented, expected;
  char name[32];
  int code = 0;
  for (std::string line; std::getline(page, line);)
    if (std::sscanf(line.c_str(), "| `%31[a-z-]` | %d |", name, &code) == 2)
      documented.emplace_back(name, code);
  for (ErrorKind kind : all_error_kinds()) expected.emplace_back(to_string(kind), exit_code(kind));
  EXPECT_EQ(documented, expected);
}

TEST(CheckDeathTest, PrintsTheConditionAndItsOperands) {
  int left = 3, right = 4;
  TAXON_CHECK(left < right);
  EXPECT_DEATH(TAXON_CHECK(left == right),
               "taxon: broken invariant at .*error_test.cc:[0-9]+: left == right");
  EXPECT_DEATH(TAXON_CHECK(left > right, "left=", left, " right=", right), "left > right: left=3 right=4");
}

TEST(Check, EvaluatesItsConditionOnce) {
  int calls = 0;
  TAXON_CHECK(++calls > 0, "never printed");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace taxon
