#include "plan/survey.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>

namespace taxon::plan {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(Survey, EverySystemHasARecipeOrAReason) {
  const std::filesystem::path folder = std::filesystem::path(TAXON_SOURCE_DIR) / "recipes/systems";
  std::set<std::string_view> names;
  for (const SurveyRow& row : survey()) {
    EXPECT_TRUE(names.insert(row.system).second) << row.system;
    EXPECT_FALSE(row.recipes.empty() && row.missing.empty()) << row.system;
    for (const std::string& recipe : words(row.recipes))
      EXPECT_TRUE(exists(folder / (recipe + ".yaml"))) << row.system << ": " << recipe;
  }
}

TEST(Survey, NamesTheSystemsThatItsTableHas) {
  std::string all;
  for (const SurveyRow& row : survey()) all += std::string(row.system) + "\n";
  for (const char* system :
       {"DistBelief",  "COTS HPC",  "Project Adam", "Parameter Server", "Petuum",     "MXNet",
        "TensorFlow",  "CNTK",      "PyTorch DDP",  "Horovod",          "ChainerMN",  "PaddlePaddle",
        "PowerAI DDL", "FireCaffe", "SparkNet",     "CaffeOnSpark",     "BigDL",      "Deeplearning4j",
        "EASGD",       "MPCA SGD",  "Poseidon",     "Gossip SGD",       "PipeDream",  "GPipe",
        "STRADS",      "Parallax",  "Megatron-LM",  "PCL-DNN",          "Zero bubble"})
    EXPECT_NE(all.find(system), std::string::npos) << system;
}

}  // namespace
}  // namespace taxon::plan
