#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "plan/reader.h"
#include "plan/reference.h"
#include "plan/sample_plan.h"

namespace taxon::plan {
namespace {

const std::filesystem::path kSource = TAXON_SOURCE_DIR;

// TAXON_WRITE_DOCS=1 plan_test --gtest_filter=Reference.* writes the page anew.
TEST(Reference, DocsPlanIsWhatTheTablesSay) {
  auto path = kSource / "docs/plan.md";
  if (std::getenv("TAXON_WRITE_DOCS")) std::ofstream(path) << plan_reference();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), plan_reference()) << "run TAXON_WRITE_DOCS=1 plan_test --gtest_filter=Reference.*";
}

TEST(Reference, NamesEveryKey) {
  std::string page = plan_reference();
  for (std::string key : known_keys()) {
    bool listed =
        page.find("`" + key + "`") != std::string::npos || page.find("## " + key + "\n") != std::string::npos;
    for (auto dot = key.rfind('.'); dot != std::string::npos && dot > 0; dot = key.rfind('.', dot - 1))
      listed |= page.find("`" + key.substr(0, dot) + "[]" + key.substr(dot) + "`") != std::string::npos;
    EXPECT_TRUE(listed) << key;
  }
}

TEST(Recipes, AreLegal) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    Plan plan = read_plan(entry.path());
    for (int n : {1, 2, 4}) EXPECT_NO_THROW(require_legal(check_plan(plan, n, test::known_names())));
    EXPECT_EQ(plan.resolved, ResolvedPlan{});
    EXPECT_EQ(plan.name, entry.path().stem());
  }
  EXPECT_GE(count, 3);
}

}  // namespace
}  // namespace taxon::plan
