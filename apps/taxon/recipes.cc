#include "apps/taxon/recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "plan/nearest.h"

namespace taxon::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSuggestions = 3;

std::string suggestions(const std::string& word, std::vector<std::string> names) {
  // A part of a name is nearer than any misspelling.
  std::vector<std::string> near;
  for (const std::string& name : names)
    if (!word.empty() && name.find(word) != std::string::npos) near.push_back(name);
  while (near.size() < kMostSuggestions) {
    const auto next = plan::nearest(word, names);
    if (!next) break;
    if (std::find(near.begin(), near.end(), *next) == near.end()) near.push_back(*next);
    std::erase(names, *next);
  }
  if (near.size() > kMostSuggestions) near.resize(kMostSuggestions);
  return near.empty() ? "; `taxon recipes` lists them"
                      : fmt::format("; did you mean {}?", fmt::join(near, ", "));
}

}  // namespace

std::string recipe_folder(const std::string& folder) {
  for (fs::path at = folder;; at = at.parent_path()) {
    for (const char* place : {"share/taxon/recipes", "recipes"})
      if (std::error_code ignored; fs::is_directory(at / place / "systems", ignored)) return at / place;
    if (at == at.parent_path()) return {};
  }
}

std::string recipe_folder() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  return failed ? std::string() : recipe_folder(program.parent_path());
}

std::vector<KnownRecipe> known_recipes(const std::string& folder) {
  std::vector<KnownRecipe> recipes;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (entry.path().extension() == ".yaml") recipes.push_back({entry.path().stem(), entry.path()});
  std::sort(recipes.begin(), recipes.end(),
            [](const KnownRecipe& a, const KnownRecipe& b) { return a.name < b.name; });
  return recipes;
}

std::string find_recipe(const std::string& word, const std::string& folder) {
  std::error_code ignored;
  if (fs::is_regular_file(word, ignored) || word.find('/') != std::string::npos || word.ends_with(".yaml"))
    return word;
  const std::vector<KnownRecipe> recipes = known_recipes(folder);
  std::vector<std::string> names;
  for (const KnownRecipe& recipe : recipes) {
    if (recipe.name == word) return recipe.path;
    names.push_back(recipe.name);
  }
  const std::string where =
      folder.empty() ? "no recipes are installed" : "no recipe of that name in " + folder;
  throw Error(ErrorKind::Usage,
              fmt::format("there is no file \"{}\", and {}{}", word, where, suggestions(word, names)));
}

}  // namespace taxon::app
