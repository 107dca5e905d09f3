#include "plan/survey.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace taxon::plan {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

const std::filesystem::path kFolder = std::filesystem::path(TAXON_SOURCE_DIR) / "recipes/systems";

TEST(Survey, EverySystemHasASourceAndARecipeOrAReason) {
  std::set<std::string_view> names;
  for (const SurveyRow& row : survey()) {
    EXPECT_TRUE(names.insert(row.system).second) << row.system;
    EXPECT_FALSE(row.source.empty()) << row.system;
    EXPECT_FALSE(row.recipes.empty() && row.missing.empty()) << row.system;
    for (const std::string& recipe : words(row.recipes))
      EXPECT_TRUE(exists(kFolder / (recipe + ".yaml"))) << row.system << ": " << recipe;
  }
}

TEST(Survey, EveryRecipeIsASystems) {
  std::set<std::string> named;
  for (const SurveyRow& row : survey())
    for (const std::string& recipe : words(row.recipes)) named.insert(recipe);
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    const std::filesystem::path& path = file.path();
    EXPECT_TRUE(path.extension() != ".yaml" || named.contains(path.stem().string()))
        << path.stem() << " is in no row of src/plan/survey.cc";
  }
}

TEST(Survey, StandsInTheOrderOfNames) {
  auto key = [](const SurveyRow& row) {
    std::string name;
    for (char c : row.system)
      if (std::isalnum(static_cast<unsigned char>(c))) name += static_cast<char>(std::tolower(c));
    return name;
  };
  EXPECT_TRUE(std::ranges::is_sorted(survey(), {}, key));
}

// TAXON_WRITE_DOCS=1 plan_test --gtest_filter=Survey.* writes the table anew.
TEST(Survey, ThePageOfRecipesHasItsTable) {
  const std::string begin = "<!-- systems -->\n", end = "<!-- end of systems -->\n";
  std::ostringstream read;
  read << std::ifstream(kFolder / "README.md").rdbuf();
  std::string page = read.str();
  const std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos && from < to);
  const std::size_t first = from + begin.size();
  if (std::getenv("TAXON_WRITE_DOCS"))
    std::ofstream(kFolder / "README.md") << page.replace(first, to - first, survey_table());
  else
    EXPECT_EQ(page.substr(first, to - first), survey_table())
        << "run TAXON_WRITE_DOCS=1 plan_test --gtest_filter=Survey.*";
}

TEST(Survey, NamesTheSystemsThatItsTableHas) {
  std::string all;
  for (const SurveyRow& row : survey()) all += std::string(row.system) + "\n";
  for (const char* system :
       {"DistBelief",  "COTS HPC",    "Project Adam", "Parameter Server", "Petuum",      "MXNet",
        "TensorFlow",  "CNTK",        "PyTorch DDP",  "Horovod",          "ChainerMN",   "PaddlePaddle",
        "PowerAI DDL", "FireCaffe",   "SparkNet",     "CaffeOnSpark",     "BigDL",       "Deeplearning4j",
        "EASGD",       "MPCA SGD",    "Poseidon",     "Gossip SGD",       "PipeDream",   "GPipe",
        "STRADS",      "Parallax",    "Megatron-LM",  "PCL-DNN",          "Zero bubble", "SINGA",
        "Theano-MPI",  "Sandblaster", "GoSGD"})
    EXPECT_NE(all.find(system), std::string::npos) << system;
}

}  // namespace
}  // namespace taxon::plan
